/*
 * http_forwarded_attributes.c: finds header fields, cookies and query parameters of a visitor's
 * request that rules use as attributes; a proxy has forwarded the request, to ask whether it may
 * pass.
 *
 * The visitor chooses all of them. So each is read a fixed number of times and compared with each
 * wanted name, and memory is bounded by the size of the head.
 */
#include "base/error.h"
#include "proto/http/http_session.h"
#include "proto/http/query.h"

/* The value of a wanted attribute. A header field may have several lines, which are joined. */
struct found {
	struct slice value;            /* data NULL if there is none */
	size_t line_count, joined_len; /* joined_len has ", " after each line */
	char *joined_end;              /* of the lines that are joined so far */
};

struct search {
	struct arena *arena;
	const struct forwarded_list *wanted;
	struct found *found; /* an entry for each of `wanted` */
};

typedef void visit_line(struct found *found, struct slice value);

static void count_line(struct found *found, struct slice value)
{
	found->value = value;
	found->line_count++;
	found->joined_len += value.len + 2;
}

static void join_line(struct found *found, struct slice value)
{
	if (found->line_count < 2)
		return;
	memcpy(found->joined_end, value.data, value.len);
	memcpy(found->joined_end + value.len, ", ", 2);
	found->joined_end += value.len + 2;
}

/* Calls `visit` for each header line of each wanted field. */
static void visit_lines(struct search *search, struct http_header header, visit_line *visit)
{
	struct slice name, value;

	while (http_header_next(&header, &name, &value))
		for (size_t i = 0; i < search->wanted->count; i++)
			if (search->wanted->items[i].in == FORWARDED_FROM_HEADER &&
			    slice_equal_nocase(search->wanted->items[i].name, name))
				visit(&search->found[i], value);
}

/*
 * Finds the wanted header fields, and joins the lines of a field by ", ", as in RFC 9110. The first
 * pass counts lines and bytes, the second joins them. Returns 0, or ENOMEM.
 */
static int find_headers(struct search *search, struct http_header header)
{
	bool must_join = false;

	visit_lines(search, header, count_line);
	for (size_t i = 0; i < search->wanted->count; i++) {
		struct found *found = &search->found[i];

		if (found->line_count < 2)
			continue;
		found->joined_end = arena_alloc(search->arena, found->joined_len);
		if (!found->joined_end)
			return WEIR_ENOMEM;
		found->value = (struct slice){found->joined_end, found->joined_len - 2};
		must_join = true;
	}
	if (must_join)
		visit_lines(search, header, join_line);
	return 0;
}

/* Stores the cookie if it is wanted, unless one with the same name came first. */
static void add_cookie(struct search *search, struct slice name, struct slice value)
{
	for (size_t i = 0; i < search->wanted->count; i++)
		if (search->wanted->items[i].in == FORWARDED_FROM_COOKIE && !search->found[i].value.data &&
		    slice_equal(search->wanted->items[i].name, name))
			search->found[i].value = value;
}

/* Finds the first cookie of each name: browsers send the one with the longest path first. */
static void find_cookies(struct search *search, struct http_header header)
{
	struct slice name, pairs;

	while (http_header_next(&header, &name, &pairs)) {
		if (!slice_equal_nocase(name, SLICE("cookie")))
			continue;
		while (pairs.len > 0) {
			struct slice value = slice_cut(&pairs, ';');
			struct slice cookie = slice_trim(slice_cut(&value, '='));

			add_cookie(search, cookie, slice_trim(value));
		}
	}
}

/* Finds the first parameter of each wanted name. Returns 0, or ENOMEM. */
static int find_in_query(struct search *search, struct slice query)
{
	struct slice name, value;

	while (query_next(&query, &name, &value)) {
		if (query_decode_form(search->arena, name, &name) != 0)
			return WEIR_ENOMEM;
		for (size_t i = 0; i < search->wanted->count; i++)
			if (search->wanted->items[i].in == FORWARDED_FROM_QUERY &&
			    !search->found[i].value.data && slice_equal(search->wanted->items[i].name, name) &&
			    query_decode_form(search->arena, value, &search->found[i].value) != 0)
				return WEIR_ENOMEM;
	}
	return 0;
}

/* Adds the wanted attributes that the request has. Returns 0, or a status with fill->error set. */
int http_forwarded_attributes(struct fill *fill, const struct forwarded_list *wanted,
                              const struct http_header *header, struct slice query)
{
	struct search search = {.arena = fill->arena, .wanted = wanted};
	int status = 0;

	if (wanted->count == 0)
		return 0;
	search.found = arena_array(fill->arena, wanted->count, sizeof *search.found);
	if (!search.found || find_headers(&search, *header) != 0 || find_in_query(&search, query) != 0)
		return error_set(&fill->error, WEIR_ENOMEM, "out of memory");
	find_cookies(&search, *header);
	for (size_t i = 0; status == 0 && i < wanted->count; i++)
		if (search.found[i].value.data)
			status =
			    fill_attribute(fill, slice_of(wanted->items[i].attribute), search.found[i].value);
	return status;
}
