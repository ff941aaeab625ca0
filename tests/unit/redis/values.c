#include "values.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define GROUP     128 /* uses that follow one another, as scripts/uses.lua has it */
#define GROUP_MAX (3 * GROUP)

static bool is_list(const struct algo_limit *limit)
{
	return limit->record == ALGO_RECORD_LOG || limit->record == ALGO_RECORD_LEASES;
}

/* Writing */

static void add_time(struct buffer *out, uint64_t ns)
{
	buffer_printf(out, "%016" PRIu64, ns / 1000);
	if (ns % 1000 != 0)
		buffer_printf(out, "%03" PRIu64, ns % 1000);
}

static bool has_name(const struct algo_limit *limit, const struct uses_entry *use)
{
	return use->id != (limit->record == ALGO_RECORD_LOG ? use->until_ns : 0);
}

static void add_end(struct buffer *out, const struct algo_limit *limit,
                    const struct uses_entry *use)
{
	add_time(out, use->until_ns);
	if (has_name(limit, use))
		buffer_printf(out, ":%" PRIu64, use->id);
}

/* Units of so many uses that follow one another, and of them the nameless ones. */
static void add_sums(struct buffer *out, const struct algo_limit *limit,
                     const struct uses_entry *uses, size_t n)
{
	uint64_t units = 0, nameless = 0;

	for (size_t i = 0; i < n; i++) {
		units += uses[i].units;
		nameless += has_name(limit, &uses[i]) ? 0 : uses[i].units;
	}
	buffer_printf(out, "%05zu:%05" PRIu64, n, units);
	if (limit->record == ALGO_RECORD_LEASES)
		buffer_printf(out, ":%05" PRIu64, nameless);
}

static void add_first(struct buffer *out, const struct algo_limit *limit, const struct uses *uses)
{
	struct uses_entry newest = {0, uses->until_ns, uses->newest_id};
	const struct uses_entry *last = uses->count > 0 ? &uses->entries[uses->count - 1] : NULL;
	char header[VALUE_HEADER_MAX];

	buffer_add(out, header, value_header(limit, header));
	add_sums(out, limit, uses->entries, uses->count);
	buffer_add_text(out, " ");
	if (last)
		add_end(out, limit, last);
	if (limit->record == ALGO_RECORD_LOG && (!last || last->id != newest.id)) {
		buffer_add_text(out, "/");
		add_end(out, limit, &newest);
	}
	for (size_t i = 0; uses->count > GROUP && i < uses->count; i += GROUP) {
		buffer_add_text(out, " ");
		add_sums(out, limit, uses->entries + i, u64_min(GROUP, uses->count - i));
	}
}

static void set_list(struct real *real, const char *key, const struct algo_limit *limit,
                     const struct uses *uses)
{
	size_t n = uses->count + 3, *lens = calloc(n, sizeof *lens),
	       *starts = calloc(n, sizeof *starts);
	const char **words = calloc(n, sizeof *words);
	struct buffer text = {0};

	buffer_printf(&text, "RPUSH%s", key);
	starts[1] = strlen("RPUSH");
	starts[2] = text.len;
	add_first(&text, limit, uses);
	for (size_t i = 0; i < uses->count; i++) {
		const struct uses_entry *use = &uses->entries[i];

		starts[3 + i] = text.len;
		add_time(&text, use->until_ns);
		buffer_printf(&text, ":%" PRIu64, use->units);
		if (has_name(limit, use))
			buffer_printf(&text, ":%" PRIu64, use->id);
	}
	for (size_t i = 0; i < n; i++) {
		words[i] = text.data + starts[i];
		lens[i] = (i + 1 < n ? starts[i + 1] : text.len) - starts[i];
	}
	freeReplyObject(redisCommandArgv(real->context, (int)n, words, lens));
	buffer_free(&text);
	free(words);
	free(starts);
	free(lens);
}

void values_set(struct real *real, const char *key, const struct algo_limit *limit,
                const struct value *value, uint64_t now_ns)
{
	struct buffer text = {0};
	uint64_t life_ms;

	freeReplyObject(real_do(real, "DEL %s", key));
	if (!is_list(limit)) {
		life_ms = value_write(limit, value, now_ns, &text);
		if (text.len > 0)
			freeReplyObject(real_do(real, "SET %s %b PXAT %llu", key, text.data, text.len,
			                        now_ns / NS_PER_MS + life_ms + VALUES_AHEAD_MS));
		buffer_free(&text);
	} else if (value->uses.count > 0 || value->uses.until_ns > 0) {
		uint64_t until_ns = value->uses.until_ns;

		for (size_t i = 0; i < value->uses.count; i++)
			until_ns = u64_max(until_ns, value->uses.entries[i].until_ns);
		set_list(real, key, limit, &value->uses);
		/* As scripts do, to the end of the block of time that it reaches into, or later. */
		real_number(real, "PEXPIREAT %s %llu", key,
		            until_ns / NS_PER_MS + VALUES_AHEAD_MS +
		                u64_max(limit->window_ns, NS_PER_S) / NS_PER_MS + 2);
	}
}

/* Reading */

/* The first element of a list, without the head. */
struct first {
	unsigned long long n, units, nameless;
	struct slice last, newest, groups;
};

static bool read_first(const struct algo_limit *limit, struct slice text, struct first *first)
{
	struct slice sums = slice_cut(&text, ' '), ends = slice_cut(&text, ' ');
	uint64_t number;

	*first = (struct first){.groups = text};
	if (!parse_u64(slice_cut(&sums, ':'), &number))
		return false;
	first->n = number;
	if (!parse_u64(slice_cut(&sums, ':'), &number))
		return false;
	first->units = number;
	if (limit->record == ALGO_RECORD_LEASES) {
		if (!parse_u64(sums, &number))
			return false;
		first->nameless = number;
	}
	first->last = slice_cut(&ends, '/');
	first->newest = ends;
	return true;
}

/* Each group of uses tells their number, their units, and how many are nameless. */
static bool check_groups(const struct algo_limit *limit, const struct first *first,
                         const redisReply *list)
{
	struct slice left = first->groups;
	size_t at = 1, groups = 0;

	while (left.len > 0) {
		struct slice text = slice_cut(&left, ' '), part;
		uint64_t said[3] = {0}, found[3] = {0};

		for (size_t i = 0; i < (limit->record == ALGO_RECORD_LEASES ? 3U : 2U); i++)
			if ((part = slice_cut(&text, ':')).len != 5 || !parse_u64(part, &said[i]))
				return false;
		if (said[0] == 0 || said[0] > GROUP_MAX)
			return false;
		for (; found[0] < said[0] && at < list->elements; found[0]++, at++) {
			struct slice use = {list->element[at]->str, list->element[at]->len};
			uint64_t units;

			slice_cut(&use, ':');
			if (!parse_u64(slice_cut(&use, ':'), &units))
				return false;
			found[1] += units;
			found[2] += limit->record == ALGO_RECORD_LEASES && use.len == 0 ? units : 0;
		}
		if (memcmp(said, found, sizeof said) != 0)
			return false;
		groups++;
	}
	if (groups == 0)
		return first->n <= GROUP_MAX;
	return at == list->elements && groups <= 2 + 4 * first->n / GROUP;
}

/*
 * Sorts uses that end together by their names, as value_read requires, and joins those of one name.
 * Replaces the text after the header. False if the text is invalid or not in order.
 */
static bool sort_places(const redisReply *list, struct buffer *out, size_t header)
{
	struct uses sorted = {.entries = calloc(list->elements, sizeof *sorted.entries)};
	bool reads = true;

	out->len = header;
	for (size_t i = 1; i < list->elements && reads; i++) {
		struct slice text = {list->element[i]->str, list->element[i]->len};
		struct slice end = slice_cut(&text, ':'), units = slice_cut(&text, ':');
		struct uses_entry use = {0};

		reads = parse_u64(end, &use.until_ns) && parse_u64(units, &use.units) &&
		        (text.len == 0 || parse_u64(text, &use.id));
		use.until_ns *= end.len == 16 ? 1000 : 1;
		reads = reads &&
		        (sorted.count == 0 || use.until_ns >= sorted.entries[sorted.count - 1].until_ns);
		uses_add(&sorted, use);
	}
	for (size_t i = 0; i < sorted.count; i++) {
		const struct uses_entry *use = &sorted.entries[i];

		add_time(out, use->until_ns);
		buffer_printf(out, ":%" PRIu64 ":%" PRIu64 "%s", use->units, use->id,
		              i + 1 < sorted.count ? " " : "");
	}
	free(sorted.entries);
	return reads;
}

/* As one text, as value_read has it. */
static bool join(const struct algo_limit *limit, const redisReply *list, struct buffer *out)
{
	struct slice text = {list->element[0]->str, list->element[0]->len}, last = SLICE("");
	uint64_t units = 0, nameless = 0, number;
	char header[VALUE_HEADER_MAX];
	struct first first;

	if (!slice_skip(&text, (struct slice){header, value_header(limit, header)}) ||
	    !read_first(limit, text, &first))
		return false;
	buffer_add(out, header, value_header(limit, header));
	for (size_t i = 1; i < list->elements; i++) {
		struct slice use = {list->element[i]->str, list->element[i]->len}, whole = use;
		struct slice end = slice_cut(&use, ':'), count = slice_cut(&use, ':');

		buffer_add_slice(out, whole);
		if (!parse_u64(count, &number))
			return false;
		units += number;
		nameless += limit->record == ALGO_RECORD_LEASES && use.len == 0 ? number : 0;
		buffer_add_text(out, i + 1 < list->elements || first.newest.len > 0 ? " " : "");
		last = end;
		if (use.len > 0 && i + 1 == list->elements &&
		    (first.last.len != end.len + 1 + use.len ||
		     memcmp(first.last.data + end.len + 1, use.data, use.len) != 0))
			return false;
	}
	if (first.newest.len > 0) {
		buffer_add_slice(out, slice_cut(&first.newest, ':'));
		buffer_add_text(out, first.newest.len > 0 ? ":0:" : ":0");
		buffer_add_slice(out, first.newest);
	}
	if (limit->record == ALGO_RECORD_LEASES && !sort_places(list, out, value_header(limit, header)))
		return false;
	return first.n == list->elements - 1 && first.units == units && first.nameless == nameless &&
	       slice_equal(slice_cut(&first.last, ':'), last) && check_groups(limit, &first, list);
}

static enum value_fit get_list(struct real *real, const char *key, const struct algo_limit *limit,
                               struct value *value)
{
	redisReply *list = real_do(real, "LRANGE %s 0 -1", key);
	struct buffer text = {0};
	enum value_fit fit = VALUE_OURS;

	if (list->elements == 0) {
		value_read(limit, SLICE(""), 1, value);
	} else {
		bool joined = join(limit, list, &text);

		fit = value_read(limit, (struct slice){text.data, text.len}, 1, value);
		if (!joined || fit != VALUE_OURS) {
			fprintf(stderr, "%s contradicts itself:\n", key);
			for (size_t i = 0; i < list->elements; i++)
				fprintf(stderr, "  %s\n", list->element[i]->str);
			fit = VALUE_OTHER;
		}
	}
	buffer_free(&text);
	freeReplyObject(list);
	return fit;
}

enum value_fit values_get(struct real *real, const char *key, const struct algo_limit *limit,
                          struct value *value)
{
	enum value_fit fit;
	redisReply *reply;
	struct slice text;

	if (is_list(limit))
		return get_list(real, key, limit, value);
	reply = real_do(real, "GET %s", key);
	text = (struct slice){reply->str, reply->str ? (size_t)reply->len : 0};
	fit = value_read(limit, slice_cut(&text, '|'), 1, value);
	freeReplyObject(reply);
	return fit;
}

void values_text(const struct algo_limit *limit, const struct value *value, uint64_t now_ns,
                 struct buffer *out)
{
	const struct uses *uses = &value->uses;

	if (!is_list(limit)) {
		value_write(limit, value, now_ns, out);
		return;
	}
	for (size_t i = 0; i < uses->count; i++)
		if (uses->entries[i].until_ns > now_ns)
			buffer_printf(out, "%" PRIu64 ":%" PRIu64 ":%" PRIu64 " ", uses->entries[i].until_ns,
			              uses->entries[i].units, uses->entries[i].id);
	if (uses->until_ns > now_ns)
		buffer_printf(out, "%" PRIu64 " %" PRIu64, uses->until_ns, uses->newest_id);
}

uint64_t values_life_ms(struct real *real, const char *key)
{
	long long at_ms = real_number(real, "PEXPIRETIME %s", key);

	return at_ms < 0 ? 0 : (uint64_t)at_ms - VALUES_AHEAD_MS;
}
