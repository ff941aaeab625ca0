/*
 * combined.c: parses lines of nginx's and Apache's formats "combined" and "common", which is
 * shorter.
 *
 *     1.2.3.4 - ann [14/Nov/2023:22:13:20 +0000] "GET /a?b HTTP/1.1" 200 12 "-" "curl/8"
 *
 * Servers may append fields. The parser reads only nginx's times among them: those with a name
 * (`rt=0.012`, `urt="0.011"`), or otherwise the first two fields with three digits after the point,
 * which is how nginx writes times. A line without a valid request line, for example of a client
 * that speaks TLS to a plain port, is a request without method and path.
 */
#include <string.h>

#include "base/number.h"
#include "base/text/path.h"
#include "base/time/timestamp.h"
#include "simulate/input/format.h"

/* Columns, in the order of combined_columns in format.c. */
enum {
	IP,
	USER,
	TIME,
	METHOD,
	PATH,
	STATUS,
	BYTES,
	REFERER,
	USER_AGENT,
	REQUEST_TIME,
	UPSTREAM_TIME,
};

struct line_parser {
	const struct columns *columns;
	struct slice line;
	const char *at, *end;
	struct record *record;
	struct weir_error *error;
};

static const char *find_char(const struct line_parser *s, char c)
{
	return s->at < s->end ? memchr(s->at, c, (size_t)(s->end - s->at)) : NULL;
}

/* Does the same as find_char, but faster if the character is only a few bytes away. */
static const char *find_char_nearby(const struct line_parser *s, char c)
{
	const char *p = s->at, *end = s->end;

	while (p < end && *p != c)
		p++;
	return p < end ? p : NULL;
}

static bool skip_char(struct line_parser *s, char c)
{
	if (s->at == s->end || *s->at != c)
		return false;
	s->at++;
	return true;
}

static int report_expected(const struct line_parser *s, const char *what)
{
	return format_expected(s->error, s->line, s->at, what);
}

/* Stores a value; these formats write "-" for no value. */
static void store_value(struct line_parser *s, int column, const char *from, const char *to)
{
	int target = s->columns->targets[column];

	if (target >= 0 && !(to - from == 1 && *from == '-'))
		s->record->values[target] = (struct slice){from, (size_t)(to - from)};
}

/* Decodes escapes in place: nginx writes \xHH, Apache \" and \\. Returns the end. */
static const char *unescape(char *from, const char *to)
{
	char *out = memchr(from, '\\', (size_t)(to - from));

	if (!out)
		return to;
	for (const char *p = out; p < to; p++) {
		if (*p != '\\' || p + 1 == to) {
			*out++ = *p;
		} else if (p[1] == 'x' && to - p >= 4 && hex_digit(p[2]) >= 0 && hex_digit(p[3]) >= 0) {
			*out++ = (char)(hex_digit(p[2]) << 4 | hex_digit(p[3]));
			p += 3;
		} else {
			*out++ = *++p;
		}
	}
	return out;
}

/* Reads a quoted string; returns its content and *end. NULL if it does not end. */
static const char *read_string(struct line_parser *s, const char **end)
{
	const char *from = s->at + 1;

	if (!skip_char(s, '"'))
		return NULL;
	for (; (*end = find_char(s, '"')); s->at = *end + 1) {
		const char *slash = *end;

		while (slash > from && slash[-1] == '\\')
			slash--;
		if ((*end - slash) % 2 == 0) {
			s->at = *end + 1;
			return from;
		}
	}
	s->at = s->end;
	return NULL;
}

/* Reads a time after its bracket, and the closing bracket. */
static bool read_time_in_brackets(struct line_parser *s)
{
	struct record *record = s->record;
	struct slice text = {s->at, FORMAT_SECOND_LEN};

	if (s->end - s->at <= FORMAT_SECOND_LEN || s->at[FORMAT_SECOND_LEN] != ']')
		return false;
	/* Many lines have the same second, so parse it only if it differs from the one before. */
	if (record->second_ns == 0 || memcmp(text.data, record->second, text.len) != 0) {
		if (!timestamp_parse_log(text, &record->second_ns))
			return false;
		memcpy(record->second, text.data, text.len);
	}
	record->time_ns = record->second_ns;
	s->at += FORMAT_SECOND_LEN + 1;
	return true;
}

/*
 * Reads the user's name and the time. A name may contain brackets but no time, since a name in an
 * Authorization header ends at the first colon.
 */
static int read_user_and_time(struct line_parser *s)
{
	const char *user = s->at, *open = find_char_nearby(s, '[');

	if (!open) {
		s->at = s->end;
		return report_expected(s, "a time in brackets");
	}
	for (const char *next = open; next; next = find_char(s, '[')) {
		s->at = next + 1;
		if (next - user >= 2 && next[-1] == ' ' && read_time_in_brackets(s)) {
			store_value(s, USER, user, unescape((char *)user, next - 1));
			return WEIR_OK;
		}
	}
	s->at = open + 1;
	return report_expected(s, "a time such as 14/Nov/2023:22:13:20 +0000");
}

/* Decodes and normalizes the path without its query, in place, as the server. Returns its end. */
static const char *normalize_path(char *from, const char *end)
{
	const char *query = memchr(from, '?', (size_t)(end - from));
	size_t len = (size_t)(unescape(from, query ? query : end) - from);

	len = path_decode((struct slice){from, len}, from);
	return from + (len > 0 && *from == '/' ? path_normalize_here(from, len) : len);
}

/* Reads the method and path of a request line, unless no limit needs them. */
static int read_request(struct line_parser *s)
{
	const char *from, *end, *blank;

	if (!skip_char(s, ' ') || !(from = read_string(s, &end)))
		return report_expected(s, "a request in quotes");
	if (s->columns->targets[METHOD] < 0 && s->columns->targets[PATH] < 0)
		return WEIR_OK;
	blank = memchr(from, ' ', (size_t)(end - from));
	if (!blank)
		return WEIR_OK;
	store_value(s, METHOD, from, blank);
	if (s->columns->targets[PATH] < 0)
		return WEIR_OK;
	from = blank + 1;
	blank = memchr(from, ' ', (size_t)(end - from));
	end = blank ? blank : end;
	store_value(s, PATH, from, normalize_path((char *)from, end));
	return WEIR_OK;
}

/* Reads a blank, and a number or "-". */
static int read_number_field(struct line_parser *s, int column)
{
	const char *from, *end = s->end, *p;

	if (!skip_char(s, ' '))
		return report_expected(s, "a blank and a number");
	from = p = s->at;
	while (p < end && ((unsigned char)(*p - '0') <= 9 || *p == '-'))
		p++;
	s->at = p;
	if (p < end && *p != ' ')
		return report_expected(s, "a number or -");
	if (p == from)
		return report_expected(s, "a blank and a number");
	store_value(s, column, from, p);
	return WEIR_OK;
}

/* Reads a quoted field, which lines in the format "common" do not have. */
static int read_text_field(struct line_parser *s, int column)
{
	const char *from, *end;

	if (s->at == s->end)
		return WEIR_OK;
	if (!skip_char(s, ' ') || !(from = read_string(s, &end)))
		return report_expected(s, "a string in quotes");
	if (s->columns->targets[column] >= 0)
		store_value(s, column, from, unescape((char *)from, end));
	return WEIR_OK;
}

/* Returns the end of a time in nginx's format, such as "0.012"; NULL if there is none. */
static const char *find_time_end(const char *p, const char *end)
{
	const char *point = p;

	while (point < end && (unsigned char)(*point - '0') <= 9)
		point++;
	/* More than 8 digits are seconds since 1970, not a latency. */
	if (point == p || point - p > 8 || end - point < 4 || *point != '.')
		return NULL;
	for (p = point + 1; p <= point + 3; p++)
		if ((unsigned char)(*p - '0') > 9)
			return NULL;
	return p < end && (unsigned char)(*p - '0') <= 9 ? NULL : p;
}

/* Returns the end of one or more times such as "0.100, 0.200 : -"; NULL if there is none. */
static const char *find_times_end(const char *p, const char *end)
{
	bool has_time = false;

	for (;;) {
		const char *next = find_time_end(p, end);

		has_time |= next != NULL;
		if (!next && (p == end || *p != '-'))
			return NULL;
		p = next ? next : p + 1;
		if (end - p >= 3 && memcmp(p, " : ", 3) == 0)
			p += 3;
		else if (end - p >= 2 && memcmp(p, ", ", 2) == 0)
			p += 2;
		else
			return has_time ? p : NULL;
	}
}

/* Skips the name of a time at *at, such as `rt=`. Returns its column, or -1 without such a name. */
static int skip_time_name(const char **at, const char *end)
{
	static const struct {
		struct slice name;
		int column;
	} names[] = {
	    {SLICE("rt="), REQUEST_TIME},
	    {SLICE("request_time="), REQUEST_TIME},
	    {SLICE("urt="), UPSTREAM_TIME},
	    {SLICE("upstream_response_time="), UPSTREAM_TIME},
	};

	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		struct slice name = names[i].name;

		if ((size_t)(end - *at) > name.len && memcmp(*at, name.data, name.len) == 0) {
			*at += name.len;
			return names[i].column;
		}
	}
	return -1;
}

/*
 * Reads the next field: the content of a string, a list of times, or a word. Returns NULL if a
 * string does not end.
 */
static const char *read_field(struct line_parser *s, const char **end)
{
	const char *from = s->at;

	if (from < s->end && *from == '"')
		return read_string(s, end);
	*end = find_times_end(from, s->end);
	if (!*end || (*end < s->end && **end != ' '))
		*end = find_char_nearby(s, ' ') ?: s->end;
	s->at = *end;
	return from;
}

/* Reads the times among the appended fields, if there are any. */
static void read_appended_times(struct line_parser *s)
{
	int next_unnamed = REQUEST_TIME;

	if (s->columns->targets[REQUEST_TIME] < 0 && s->columns->targets[UPSTREAM_TIME] < 0)
		return;
	while (skip_char(s, ' ')) {
		int named_column = skip_time_name(&s->at, s->end);
		const char *end, *from = read_field(s, &end);

		if (!from)
			return;
		if (find_times_end(from, end) == end &&
		    (named_column >= 0 || next_unnamed <= UPSTREAM_TIME))
			store_value(s, named_column >= 0 ? named_column : next_unnamed++, from, end);
	}
}

int format_combined(const struct columns *columns, struct slice line, struct record *record,
                    struct weir_error *error)
{
	struct line_parser s = {columns, line, line.data, line.data + line.len, record, error};
	const char *blank = find_char(&s, ' ');
	int status;

	format_begin(columns, record);
	if (!blank || blank == line.data)
		return report_expected(&s, "an address and a blank");
	store_value(&s, IP, s.at, blank);
	s.at = blank + 1;
	blank = find_char_nearby(&s, ' ');
	if (!blank)
		return report_expected(&s, "- and a blank");
	s.at = blank + 1;
	status = read_user_and_time(&s) ?: read_request(&s) ?: read_number_field(&s, STATUS) ?:
	         read_number_field(&s, BYTES) ?: read_text_field(&s, REFERER) ?: read_text_field(&s, USER_AGENT);
	if (status == WEIR_OK)
		read_appended_times(&s);
	return status;
}
