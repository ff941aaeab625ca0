/*
 * csv.c: parses lines of a log in CSV (RFC 4180) into requests. Each line is one request: quoted
 * values can not contain line ends.
 *
 * The first line names the columns. An empty cost counts as absent.
 */
#include <string.h>

#include "base/error.h"
#include "simulate/input/format.h"

/* Reads the quoted value at *at as read_csv_value does. Decodes doubled quotes in place. */
static int read_quoted(struct slice line, const char **at, struct slice *value,
                       struct weir_error *error)
{
	const char *end = line.data + line.len, *p = *at + 1;
	char *out = (char *)p;

	value->data = out;
	for (;;) {
		const char *quote = p < end ? memchr(p, '"', (size_t)(end - p)) : NULL;

		if (!quote)
			return format_expected(error, line, end, "the end of a quoted value");
		memmove(out, p, (size_t)(quote - p));
		out += quote - p;
		p = quote + 1;
		if (p == end || *p != '"')
			break;
		*out++ = *p++; /* a doubled quote stands for one */
	}
	value->len = (size_t)(out - value->data);
	*at = p;
	return p == end || *p == ',' ? WEIR_OK : format_expected(error, line, p, "a comma");
}

/*
 * Reads the value at *at, and moves *at to the comma or the end of the line. ESYNTAX if quotes do
 * not end or are not followed by a comma.
 */
static int read_csv_value(struct slice line, const char **at, struct slice *value,
                          struct weir_error *error)
{
	const char *begin = *at, *end = line.data + line.len, *comma;

	if (begin < end && *begin == '"')
		return read_quoted(line, at, value, error);
	comma = begin < end ? memchr(begin, ',', (size_t)(end - begin)) : NULL;
	*at = comma ? comma : end;
	*value = (struct slice){begin, (size_t)(*at - begin)};
	return WEIR_OK;
}

int format_csv_header(struct columns *columns, struct slice line, struct weir_error *error)
{
	const char *at = line.data, *end = line.data + line.len;
	bool has_time = false;

	for (;; at++) {
		struct slice name;
		int status = read_csv_value(line, &at, &name, error);

		if (status != WEIR_OK)
			return status;
		if (columns->count == FORMAT_COLUMNS_MAX)
			return error_set(error, WEIR_ELONG, "expected at most %d columns, found more",
			                 FORMAT_COLUMNS_MAX);
		columns->targets[columns->count] = format_target(columns->fields, name);
		has_time |= columns->targets[columns->count++] == TARGET_TIME;
		if (at == end)
			break;
	}
	return has_time ? WEIR_OK : format_expected(error, line, line.data, "a column \"time\"");
}

int format_csv(const struct columns *columns, struct slice line, struct record *record,
               struct weir_error *error)
{
	const char *at = line.data, *end = line.data + line.len;

	format_begin(columns, record);
	for (size_t i = 0;; i++, at++) {
		struct slice value;
		int status;

		if (i == columns->count)
			return format_expected(error, line, at, "no more columns than the first line has");
		status = read_csv_value(line, &at, &value, error);
		if (status == WEIR_OK && !(columns->targets[i] == TARGET_COST && value.len == 0))
			status = format_store_value(record, columns->targets[i], value, line, error);
		if (status != WEIR_OK)
			return status;
		if (at == end)
			break;
	}
	return format_end(record, line, error);
}
