#include "load/scan.h"

#include <string.h>

#include "base/number.h"

#define GROUP_MAX (UINT64_C(1) << 20)
#define BODY_MAX  (UINT64_C(1) << 30)

static void store_text(struct scan *scan, struct slice text)
{
	size_t len = u64_min(text.len, SCAN_LINE_MAX - 1);

	memcpy(scan->text, text.data, len);
	scan->text[len] = '\0';
}

/* Removes the next line from `bytes`, without its end. False if it has not ended. */
static bool next_line(struct scan *scan, struct slice *bytes, struct slice *line)
{
	const char *end = bytes->len > 0 ? memchr(bytes->data, '\n', bytes->len) : NULL;
	struct slice part = {bytes->data, end ? (size_t)(end - bytes->data) : bytes->len};

	bytes->data += part.len + (end != NULL);
	bytes->len -= part.len + (end != NULL);
	*line = part;
	if (!end || scan->line_len > 0) {
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

enum scan_result scan_next(const struct scan_rules *rules, struct scan *scan, struct slice *bytes)
{
	struct slice line;

	for (;;) {
		uint64_t skipped = u64_min(scan->skip, bytes->len);

		bytes->data += skipped;
		bytes->len -= skipped;
		scan->skip -= skipped;
		if (scan->skip > 0)
			return SCAN_MORE;
		if (scan->begun && scan->pending == 0) {
			scan->begun = false;
			return SCAN_REPLY;
		}
		if (!next_line(scan, bytes, &line))
			return SCAN_MORE;
		if (!rules->read_line(rules, scan, line)) {
			store_text(scan, line);
			return SCAN_BROKEN;
		}
	}
}

/* Reads an integer; the first one of a reply is its decision. */
static bool resp_integer(const struct scan_rules *rules, struct scan *scan, struct slice digits)
{
	int64_t value;

	scan->pending--;
	if (scan->outcome != SCAN_ANSWER || rules->allowed < 0)
		return true;
	if (!parse_i64(digits, &value))
		return false;
	scan->outcome = value == rules->allowed ? SCAN_ALLOWED : SCAN_DENIED;
	return true;
}

static bool resp_bulk(struct scan *scan, struct slice digits)
{
	uint64_t len;

	scan->pending--;
	if (slice_equal(digits, SLICE("-1"))) /* null */
		return true;
	if (!parse_u64(digits, &len) || len > BODY_MAX)
		return false;
	scan->skip = len + 2;
	return true;
}

/*
 * Reads the length of an array or map: `times` values follow for each element. `self` is 1 if the
 * group is itself a value that was missing.
 */
static bool resp_group(struct scan *scan, struct slice digits, uint64_t times, uint64_t self)
{
	uint64_t n = 0;

	if (!slice_equal(digits, SLICE("-1")) && (!parse_u64(digits, &n) || n > GROUP_MAX))
		return false;
	scan->pending += times * n - self;
	return true;
}

static bool resp_line(const struct scan_rules *rules, struct scan *scan, struct slice line)
{
	struct slice rest = {line.data + 1, line.len - 1};

	if (line.len == 0)
		return false;
	if (!scan->begun) {
		bool error = line.data[0] == '-' || line.data[0] == '!';

		scan->begun = true;
		scan->pending = 1;
		scan->outcome = error ? SCAN_ERROR : SCAN_ANSWER;
		if (error)
			store_text(scan, rest);
	}
	switch (line.data[0]) {
	case ':':
		return resp_integer(rules, scan, rest);
	case '+':
	case '-':
	case '_':
	case '#':
	case ',':
	case '(':
		scan->pending--;
		return true;
	case '$':
	case '=':
	case '!':
		return resp_bulk(scan, rest);
	case '*':
	case '~':
		return resp_group(scan, rest, 1, 1);
	case '%':
		return resp_group(scan, rest, 2, 1);
	case '|': /* attributes, which precede a value */
		return resp_group(scan, rest, 2, 0);
	}
	return false;
}

static bool http_status(struct scan *scan, struct slice line)
{
	uint64_t status;

	if (line.len < 12 || memcmp(line.data, "HTTP/1.", 7) != 0 ||
	    !parse_u64((struct slice){line.data + 9, 3}, &status) || status < 200)
		return false;
	scan->begun = true;
	scan->pending = 1;
	scan->body = 0;
	scan->sized = status == 204 || status == 304;
	scan->outcome = status == 429 ? SCAN_DENIED : status < 300 ? SCAN_ALLOWED : SCAN_ERROR;
	if (scan->outcome == SCAN_ERROR)
		store_text(scan, line);
	return true;
}

static bool http_field_line(const struct scan_rules *rules, struct scan *scan, struct slice line)
{
	const struct slice name = SLICE("content-length:");
	struct slice value = {line.data + name.len, line.len - name.len};

	(void)rules;
	if (!scan->begun)
		return http_status(scan, line);
	if (line.len == 0) {
		scan->pending = 0;
		scan->skip = scan->body;
		return scan->sized;
	}
	if (line.len <= name.len || !slice_equal_nocase((struct slice){line.data, name.len}, name))
		return true;
	scan->sized = true;
	return parse_u64(slice_trim(value), &scan->body) && scan->body <= BODY_MAX;
}

struct scan_rules scan_resp(struct slice command)
{
	/* The commands whose first integer is a decision, and the integer that allows. */
	static const struct {
		struct slice name;
		int64_t allowed;
	} decisions[] = {
	    {SLICE("CL.THROTTLE"), 0}, {SLICE("THROTTLE"), 1},       {SLICE("WEIR.ACQUIRE"), 1},
	    {SLICE("WEIR.PEEK"), 1},   {SLICE("WEIR.CHECK"), 1},     {SLICE("WEIR.REFUND"), 1},
	    {SLICE("WEIR.RESET"), 1},  {SLICE("WEIR.CHECKPEEK"), 1},
	};

	for (size_t i = 0; i < sizeof decisions / sizeof *decisions; i++)
		if (slice_equal_nocase(command, decisions[i].name))
			return (struct scan_rules){resp_line, decisions[i].allowed};
	return (struct scan_rules){resp_line, -1};
}

struct scan_rules scan_http(void)
{
	return (struct scan_rules){http_field_line, -1};
}
