/*
 * scan.c: finds the replies of a server in a stream of bytes, which may be split anywhere, and
 * whether each reply allows or denies a request. For RESP (the protocol of Redis) and HTTP/1.
 */
#include "load/scan.h"

#include <string.h>

#include "base/number.h"

#define ELEMENTS_MAX (UINT64_C(1) << 20)
#define NO_DECISION  (-1) /* no integer of a reply is a decision */
#define BODY_MAX     (UINT64_C(1) << 30)

/* Stores the beginning of a text for the user. */
static void store_error_text(struct scan *scan, struct slice text)
{
	size_t len = u64_min(text.len, SCAN_LINE_MAX - 1);

	memcpy(scan->text, text.data, len);
	scan->text[len] = '\0';
}

/*
 * Removes the next line from `bytes`, and sets *line to it without its end. False if the line has
 * not ended: then its beginning, as far as it fits, is stored until the rest arrives.
 */
static bool take_line(struct scan *scan, struct slice *bytes, struct slice *line)
{
	const char *end = bytes->len > 0 ? memchr(bytes->data, '\n', bytes->len) : NULL;
	struct slice part = {bytes->data, end ? (size_t)(end - bytes->data) : bytes->len};
	size_t newline_len = end != NULL;

	bytes->data += part.len + newline_len;
	bytes->len -= part.len + newline_len;
	*line = part;
	if (!end || scan->line_len > 0) { /* the line came in several parts */
		size_t len = u64_min(part.len, SCAN_LINE_MAX - scan->line_len);

		if (len > 0)
			memcpy(scan->line + scan->line_len, part.data, len);
		scan->line_len += len;
		*line = (struct slice){scan->line, scan->line_len};
	}
	if (!end)
		return false;
	scan->line_len = 0;
	if (line->len > 0 && line->data[line->len - 1] == '\r')
		line->len--;
	return true;
}

/* Removes bytes from `bytes` up to the end of a reply, or all if the reply has not ended. */
enum scan_result scan_next(const struct scan_rules *rules, struct scan *scan, struct slice *bytes)
{
	struct slice line;

	for (;;) {
		uint64_t skipped = u64_min(scan->skip_bytes, bytes->len);
		bool is_complete;

		bytes->data += skipped;
		bytes->len -= skipped;
		scan->skip_bytes -= skipped;
		if (scan->skip_bytes > 0)
			return SCAN_MORE;
		is_complete = scan->in_reply && scan->missing_values == 0;
		if (is_complete) {
			scan->in_reply = false;
			return SCAN_REPLY;
		}
		if (!take_line(scan, bytes, &line))
			return SCAN_MORE;
		if (!rules->read_line(rules, scan, line)) {
			store_error_text(scan, line);
			return SCAN_BROKEN;
		}
	}
}

/* Reads an integer; the first one in a reply to a command that decides is the decision. */
static bool read_resp_integer(const struct scan_rules *rules, struct scan *scan,
                              struct slice digits)
{
	int64_t value;

	scan->missing_values--;
	if (scan->outcome != SCAN_ANSWER || rules->allowing_integer < 0)
		return true;
	if (!parse_i64(digits, &value))
		return false;
	scan->outcome = value == rules->allowing_integer ? SCAN_ALLOWED : SCAN_DENIED;
	return true;
}

/* Reads the length of a string, whose bytes and newline are skipped then. */
static bool read_resp_bulk(struct scan *scan, struct slice digits)
{
	uint64_t len;

	scan->missing_values--;
	if (slice_equal(digits, SLICE("-1"))) /* null */
		return true;
	if (!parse_u64(digits, &len) || len > BODY_MAX)
		return false;
	scan->skip_bytes = len + strlen("\r\n");
	return true;
}

/*
 * Reads the number of elements of a group (an array or a map), whose values are missing now. A
 * group `is_value` if it is itself one of the missing values, and not attributes of the next one.
 */
static bool read_resp_group(struct scan *scan, struct slice digits, uint64_t values_per_element,
                            bool is_value)
{
	uint64_t n = 0;

	if (!slice_equal(digits, SLICE("-1")) && (!parse_u64(digits, &n) || n > ELEMENTS_MAX))
		return false;
	scan->missing_values += values_per_element * n - (is_value ? 1 : 0);
	return true;
}

/* Reads one line by its first byte, the type of a value. Returns false for an unknown type. */
static bool read_resp_line(const struct scan_rules *rules, struct scan *scan, struct slice line)
{
	struct slice rest = {line.data + 1, line.len - 1};

	if (line.len == 0)
		return false;
	if (!scan->in_reply) {
		bool is_error = line.data[0] == '-' || line.data[0] == '!';

		scan->in_reply = true;
		scan->missing_values = 1;
		scan->outcome = is_error ? SCAN_ERROR : SCAN_ANSWER;
		if (is_error)
			store_error_text(scan, rest);
	}
	switch (line.data[0]) {
	case ':':
		return read_resp_integer(rules, scan, rest);
	case '+':
	case '-':
	case '_':
	case '#':
	case ',':
	case '(':
		scan->missing_values--;
		return true;
	case '$':
	case '=':
	case '!':
		return read_resp_bulk(scan, rest);
	case '*':
	case '~':
		return read_resp_group(scan, rest, 1, true);
	case '%':
		return read_resp_group(scan, rest, 2, true);
	case '|':
		return read_resp_group(scan, rest, 2, false);
	}
	return false;
}

/* Reads the first line of a response: "HTTP/1.1 200 OK". Too many requests (429) is a denial. */
static bool read_http_status(struct scan *scan, struct slice line)
{
	uint64_t status;

	if (line.len < 12 || memcmp(line.data, "HTTP/1.", 7) != 0 ||
	    !parse_u64((struct slice){line.data + 9, 3}, &status) || status < 200)
		return false;
	scan->in_reply = true;
	scan->missing_values = 1;
	scan->content_length = 0;
	scan->has_known_length = status == 204 || status == 304; /* without a body */
	scan->outcome = status == 429 ? SCAN_DENIED : status < 300 ? SCAN_ALLOWED : SCAN_ERROR;
	if (scan->outcome == SCAN_ERROR)
		store_error_text(scan, line);
	return true;
}

/* Reads the status line, a header line, or the empty line that ends them. */
static bool read_http_line(const struct scan_rules *rules, struct scan *scan, struct slice line)
{
	const struct slice name = SLICE("content-length:");
	struct slice value = {line.data + name.len, line.len - name.len};

	(void)rules;
	if (!scan->in_reply)
		return read_http_status(scan, line);
	if (line.len == 0) {
		scan->missing_values = 0;
		scan->skip_bytes = scan->content_length;
		return scan->has_known_length;
	}
	if (line.len <= name.len || !slice_equal_nocase((struct slice){line.data, name.len}, name))
		return true;
	scan->has_known_length = true;
	return parse_u64(slice_trim(value), &scan->content_length) && scan->content_length <= BODY_MAX;
}

/* The rules for replies to a command, by its first word. */
struct scan_rules scan_resp(struct slice command)
{
	/* The commands whose first integer is a decision, and the integer that allows. */
	static const struct {
		struct slice name;
		int64_t allowing_integer;
	} decisions[] = {
	    {SLICE("CL.THROTTLE"), 0}, {SLICE("THROTTLE"), 1},       {SLICE("WEIR.ACQUIRE"), 1},
	    {SLICE("WEIR.PEEK"), 1},   {SLICE("WEIR.CHECK"), 1},     {SLICE("WEIR.REFUND"), 1},
	    {SLICE("WEIR.RESET"), 1},  {SLICE("WEIR.CHECKPEEK"), 1},
	};

	for (size_t i = 0; i < sizeof decisions / sizeof *decisions; i++)
		if (slice_equal_nocase(command, decisions[i].name))
			return (struct scan_rules){read_resp_line, decisions[i].allowing_integer};
	return (struct scan_rules){read_resp_line, NO_DECISION};
}

struct scan_rules scan_http(void)
{
	return (struct scan_rules){read_http_line, NO_DECISION};
}
