/*
 * http_carried.c: what a proxied request carries of the attributes that rules want.
 *
 * A visitor chooses all of it, so the work is bounded by the head's length times the
 * number of wanted attributes (CARRIED_MAX), and memory by the head's length alone.
 */
#include "base/error.h"
#include "proto/http_session.h"
#include "proto/query.h"

static bool next_value(struct slice *fields, struct slice wanted, struct slice *value)
{
	struct slice name;

	while (http1_next_field(fields, &name, value))
		if (slice_equal_nocase(name, wanted))
			return true;
	return false;
}

/* All lines of a header, joined by ", ", as RFC 9110 has it. data NULL: there is none. */
static int find_header(struct arena *arena, struct slice fields, struct slice name,
                       struct slice *out)
{
	struct slice rest = fields, value;
	size_t len = 0, lines = 0;
	char *to;

	for (; next_value(&rest, name, &value); lines++) {
		*out = value;
		len += value.len + 2;
	}
	if (lines <= 1)
		return 0;
	to = arena_alloc(arena, len);
	if (!to)
		return WEIR_ENOMEM;
	*out = (struct slice){to, len - 2};
	while (next_value(&fields, name, &value)) {
		memcpy(to, value.data, value.len);
		memcpy(to + value.len, ", ", 2);
		to += value.len + 2;
	}
	return 0;
}

/* The first of that name, as it was sent: browsers put that of the longest path first. */
static void find_cookie(struct slice fields, struct slice name, struct slice *out)
{
	struct slice pairs;

	while (!out->data && next_value(&fields, SLICE("cookie"), &pairs))
		while (!out->data && pairs.len > 0) {
			struct slice value = slice_cut(&pairs, ';');
			struct slice its_name = slice_trim(slice_cut(&value, '='));

			if (slice_equal(its_name, name))
				*out = slice_trim(value);
		}
}

/* The first of each name, all in one pass, since names have to be decoded, too. */
static int find_in_query(struct arena *arena, struct slice query, const struct carried_list *wanted,
                         struct slice *values)
{
	struct slice name, value;

	while (query_next(&query, &name, &value)) {
		if (query_decode_form(arena, name, &name) != 0)
			return WEIR_ENOMEM;
		for (size_t i = 0; i < wanted->count; i++)
			if (wanted->items[i].in == CARRIED_QUERY && !values[i].data &&
			    slice_equal(wanted->items[i].name, name) &&
			    query_decode_form(arena, value, &values[i]) != 0)
				return WEIR_ENOMEM;
	}
	return 0;
}

static int find(struct arena *arena, const struct carried_list *wanted, struct slice fields,
                struct slice query, struct slice *values)
{
	int status = 0;

	for (size_t i = 0; status == 0 && i < wanted->count; i++) {
		const struct carried *item = &wanted->items[i];

		if (item->in == CARRIED_HEADER)
			status = find_header(arena, fields, item->name, &values[i]);
		else if (item->in == CARRIED_COOKIE)
			find_cookie(fields, item->name, &values[i]);
	}
	return status == 0 ? find_in_query(arena, query, wanted, values) : status;
}

int http_carried(struct fill *fill, const struct carried_list *wanted, struct slice fields,
                 struct slice query)
{
	struct slice *values;
	int status = 0;

	if (wanted->count == 0)
		return 0;
	values = arena_array(fill->arena, wanted->count, sizeof *values);
	if (!values || find(fill->arena, wanted, fields, query, values) != 0)
		return error_set(&fill->error, WEIR_ENOMEM, "out of memory");
	for (size_t i = 0; status == 0 && i < wanted->count; i++)
		if (values[i].data)
			status = fill_attribute(fill, slice_of(wanted->items[i].attribute), values[i]);
	return status;
}
