/*
 * per.c: finds the values of a field that have most requests, then searches a limit for the
 * requests of each, and one for those of all other values.
 */
#include "cli/simulate/per.h"

#include <math.h>
#include <string.h>

#include "base/error.h"
#include "base/hash.h"
#include "base/number.h"
#include "simulate/input/trace.h"
#include "simulate/report/figure.h"
#include "stats/top_denied.h"

#define SHOWN_MAX 64 /* characters of a value in the table */
#define ELLIPSIS  "..."
#define NO_TIME   0 /* so that the counts of values do not fade */

/* How the value of each request is used. */
struct visitor {
	int (*visit)(void *context, uint64_t hash, struct slice value);
	void *context;
	FILE *reports; /* for lines that can't be read, or NULL */
};

/*
 * Reads the log and visits the value of each request, with its hash. A value may be missing, which
 * counts as the empty one. Returns the first status of the visitor that is no WEIR_OK.
 */
static int read_values(const struct per *per, struct suggest *suggest,
                       const struct visitor *visitor, struct weir_error *error)
{
	static const struct hash_key no_key;
	struct trace trace = {.path = suggest->path};
	struct record record = {0};
	struct fields fields = {.names = {slice_of(per->field)}, .count = 1};
	int fd = reusable_log_reopen(&suggest->log, suggest->path, error);
	int status = fd < 0 ? fd
	                    : trace_open_descriptor(&trace, fd, suggest->format, &fields,
	                                            visitor->reports, error);

	if (status != WEIR_OK)
		return status;
	suggest->progress->trace = &trace;
	for (uint64_t n = 0; (status = trace_next(&trace, &record, error)) == 1; n++) {
		struct slice value = record.values[0].len > 0 ? record.values[0] : SLICE("");

		status =
		    visitor->visit(visitor->context, hash_bytes(&no_key, value.data, value.len), value);
		if (status != WEIR_OK) {
			error_set(error, status, "%s", weir_strerror(status));
			break;
		}
		if (n % 4096 == 0)
			progress_show(suggest->progress, n);
	}
	suggest->progress->trace = NULL;
	trace_close(&trace);
	return status;
}

static int count_value(void *context, uint64_t hash, struct slice value)
{
	struct top *top = context;

	top_count_denial(top, 0, hash, "", value, NO_TIME);
	return WEIR_OK;
}

/* The most frequent values, of which `top` keeps only TOP_KEY_MAX bytes. */
struct frequent_values {
	struct top_entry *entries;
	size_t count;
	struct arena *arena;
};

/* Replaces the beginning of a long value, if it is that, by the whole. */
static int complete_value(void *context, uint64_t hash, struct slice value)
{
	const struct frequent_values *values = context;

	for (size_t i = 0; value.len > TOP_KEY_MAX && i < values->count; i++) {
		struct top_entry *entry = &values->entries[i];

		if (!entry->cut || entry->hash != hash)
			continue;
		entry->key = (struct slice){arena_copy(values->arena, value), value.len};
		entry->cut = false;
		if (!entry->key.data)
			return WEIR_ENOMEM;
	}
	return WEIR_OK;
}

/* Completes long values among the most frequent, which takes another pass over the log. */
static int complete_values(const struct per *per, struct suggest *suggest,
                           struct frequent_values *values, struct weir_error *error)
{
	for (size_t i = 0; i < values->count; i++)
		if (values->entries[i].cut)
			return read_values(per, suggest, &(struct visitor){complete_value, values, NULL},
			                   error);
	return WEIR_OK;
}

/*
 * Sets the values to search for, as rows without a limit yet. Rare ones, and those with a NUL,
 * share the last row.
 */
static int choose_values(struct per *per, struct suggest *suggest, struct weir_error *error)
{
	struct arena arena = {0};
	struct top *top = top_open(1);
	size_t n = TOP_COUNTERS;
	bool has_others = false;
	int status = top ? read_values(per, suggest, &(struct visitor){count_value, top, stderr}, error)
	                 : error_set(error, WEIR_ENOMEM, "out of memory");
	struct top_entry *entries = status == WEIR_OK ? top_list(top, &n, NO_TIME, &arena) : NULL;

	if (status == WEIR_OK && !entries)
		status = error_set(error, WEIR_ENOMEM, "out of memory");
	if (status == WEIR_OK)
		status = complete_values(
		    per, suggest, &(struct frequent_values){entries, u64_min(n, PER_VALUES_MAX), &arena},
		    error);
	for (size_t i = 0; status == WEIR_OK && i < n; i++) {
		struct slice key = entries[i].key;

		if (entries[i].cut || (key.len > 0 && memchr(key.data, '\0', key.len)) ||
		    per->count == PER_VALUES_MAX) {
			has_others = true;
			continue;
		}
		per->rows[per->count].value = arena_copy(&suggest->arena, key);
		if (!per->rows[per->count++].value)
			status = error_set(error, WEIR_ENOMEM, "out of memory");
	}
	if (status == WEIR_OK && has_others)
		per->rows[per->count++].value = NULL;
	arena_free(&arena);
	top_close(top);
	return status;
}

/* Searches for the limit of one row. */
static int search_row(struct per *per, size_t i, struct suggest *suggest, struct weir_error *error)
{
	struct per_row *row = &per->rows[i];
	const char *values[PER_VALUES_MAX];
	struct suggest_filter filter = {.field = per->field, .values = values, .others = !row->value};
	int status;

	for (size_t j = 0; j < per->count; j++)
		if (per->rows[j].value && (j == i || filter.others))
			values[filter.count++] = per->rows[j].value;
	suggest->filter = &filter;
	status = suggest_run(suggest, error);
	suggest->filter = NULL;
	if (status == WEIR_ENOTFOUND) /* even the largest limit denies too many */
		return WEIR_OK;
	if (status != WEIR_OK)
		return status;
	row->limit = strchr(suggest->found.limit, '{');
	row->unsure = suggest->found.unsure;
	for (size_t j = 0; j < suggest->found.point_count; j++)
		if (suggest->found.points[j].count == suggest->found.count)
			row->point = suggest->found.points[j];
	return WEIR_OK;
}

int per_run(struct per *per, struct suggest *suggest, struct weir_error *error)
{
	int status = suggest_open_log(suggest, error) ?: choose_values(per, suggest, error);

	if (status == WEIR_OK && per->count == 0)
		status = error_set(error, WEIR_ESYNTAX, "%s: expected requests, found none", suggest->path);
	for (size_t i = 0; i < per->count && status == WEIR_OK; i++)
		status = search_row(per, i, suggest, error);
	return status;
}

static const char *shown_value(const struct per_row *row)
{
	return !row->value ? "(all others)" : *row->value ? row->value : "(none)";
}

/* Writes the visible ASCII characters of a value, since clients choose paths; of a long one the
 * beginning. */
static void add_value(const struct per_row *row, struct buffer *out)
{
	const char *value = shown_value(row);
	size_t len = strlen(value);
	bool is_cut = len > SHOWN_MAX;

	for (size_t i = 0; i < (is_cut ? SHOWN_MAX - strlen(ELLIPSIS) : len); i++)
		buffer_printf(out, "%c", value[i] < ' ' || value[i] > '~' ? '?' : value[i]);
	buffer_add_text(out, is_cut ? ELLIPSIS : "");
}

void per_add_text(const struct per *per, const struct suggest *suggest, struct buffer *out)
{
	size_t width = strlen(per->field);
	const char *what = suggest->found.by_requests ? "request" : "key";
	bool is_unsure = false, is_none = false;

	for (size_t i = 0; i < per->count; i++)
		width = u64_max(width, u64_min(strlen(shown_value(&per->rows[i])), SHOWN_MAX));
	buffer_printf(out, "%s: limits that deny at most ", suggest->path);
	figure_add_percent(out, 0, suggest->found.share, 1);
	buffer_printf(out, " of %s\n\n%-*s %9s %8s %7s %8s  %s\n",
	              suggest->found.by_requests ? "requests" : "keys", (int)width, per->field,
	              "requests", "denied", "keys", "keys hit", "limit");
	for (size_t i = 0; i < per->count; i++) {
		const struct per_row *row = &per->rows[i];
		size_t begin = out->len;

		add_value(row, out);
		buffer_printf(out, "%*s", (int)(width - (out->len - begin)), "");
		if (!row->limit) {
			buffer_add_text(out, "  no limit denies so few\n");
			continue;
		}
		buffer_printf(out, " %9llu ", (unsigned long long)row->point.requests);
		figure_add_percent(out, 8, (double)row->point.denied, (double)row->point.requests);
		buffer_printf(out, " %7llu ", (unsigned long long)row->point.keys);
		figure_add_percent(out, 8, (double)row->point.hit, (double)row->point.keys);
		buffer_printf(out, "  %s\n", row->limit);
		is_unsure |= row->unsure;
		is_none |= report_share_is_none(suggest->found.share, suggest->found.by_requests
		                                                          ? row->point.requests
		                                                          : row->point.keys);
	}
	if (is_none) {
		figure_add_percent(out, 0, suggest->found.share, 1);
		buffer_printf(out, " of fewer than %.0f %ss is none: limits of so few deny no %s\n",
		              ceil(1 / suggest->found.share - 1e-9), what, what);
	}
	if (is_unsure)
		buffer_add_text(out, "requests differ in cost: much smaller limits may deny as few\n");
}

static void add_json_number(const char *before, uint64_t value, struct buffer *out)
{
	buffer_add_text(out, before);
	buffer_add_u64(out, value);
}

void per_add_json(const struct per *per, struct buffer *out)
{
	buffer_add_text(out, "{\"per\":\"");
	buffer_add_json(out, slice_of(per->field));
	buffer_add_text(out, "\",\"suggestions\":[");
	for (size_t i = 0; i < per->count; i++) {
		const struct per_row *row = &per->rows[i];

		buffer_add_text(out, i > 0 ? ",{\"value\":" : "{\"value\":");
		buffer_add_text(out, row->value ? "\"" : "null");
		buffer_add_json(out, slice_of(row->value ?: ""));
		buffer_add_text(out, row->value ? "\",\"limit\":" : ",\"limit\":");
		buffer_add_text(out, row->limit ? "\"" : "null");
		buffer_add_json(out, slice_of(row->limit ?: ""));
		buffer_add_text(out, row->limit ? "\"" : "");
		add_json_number(",\"count\":", row->point.count, out);
		add_json_number(",\"requests\":", row->point.requests, out);
		add_json_number(",\"denied\":", row->point.denied, out);
		add_json_number(",\"keys\":", row->point.keys, out);
		add_json_number(",\"hit\":", row->point.hit, out);
		buffer_printf(out, ",\"unsure\":%s}", row->unsure ? "true" : "false");
	}
	buffer_add_text(out, "]}\n");
}
