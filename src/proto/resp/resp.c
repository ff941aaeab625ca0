/*
 * resp.c: reads commands of RESP, the protocol of Redis, from bytes that may arrive in pieces, and
 * writes replies. A command is an array of texts ("$3\r\nGET\r\n") and integers, or an inline
 * command: a line of words.
 */
#include "proto/resp/resp.h"

#include <stdio.h>
#include <string.h>

#include "base/number.h"

/* The bytes behind the error can not be parsed: the connection has to end. */
static enum resp_result report_broken(struct resp_command *command, const char *why)
{
	snprintf(command->error, sizeof command->error, "Protocol error: %s", why);
	return RESP_BROKEN;
}

/* Reads an element such as ":10" as the word "10", once all of it has arrived. */
static enum resp_result read_integer(struct resp_reader *reader, struct slice data,
                                     struct resp_command *command)
{
	size_t index = reader->element_count - reader->elements_left;
	const char *begin = data.data + reader->position + 1, *end = data.data + data.len, *digits, *p;
	bool plus = begin < end && *begin == '+', minus = begin < end && *begin == '-';

	digits = p = begin + (plus || minus);
	begin += plus; /* the word has a minus, but no plus */
	while (p < end && p - digits < RESP_DIGITS_MAX && *p >= '0' && *p <= '9')
		p++;
	if (p < end && (p == digits || *p != '\r'))
		return report_broken(command, "invalid integer");
	if (end - p < 2)
		return RESP_MORE;
	if (p[1] != '\n')
		return report_broken(command, "invalid integer");
	if (index < command->capacity)
		command->args[index] = (struct slice){begin, (size_t)(p - begin)};
	reader->position = (size_t)(p + 2 - data.data);
	reader->elements_left--;
	return RESP_COMMAND;
}

/* Reads "$3\r\n" and moves behind the three bytes that follow, which need not have arrived yet. */
static enum resp_result read_bulk_length(struct resp_reader *reader, struct slice data,
                                         struct resp_command *command)
{
	size_t index = reader->element_count - reader->elements_left;
	enum resp_result result;
	uint32_t len;

	if (data.data[reader->position] != '$') {
		snprintf(command->error, sizeof command->error, "Protocol error: expected '$', got '%c'",
		         data.data[reader->position]);
		return RESP_BROKEN;
	}
	result = resp_read_length(data, &reader->position, RESP_BULK_MAX, &len);
	if (result == RESP_BROKEN)
		return report_broken(command, "invalid bulk length");
	if (result == RESP_MORE)
		return RESP_MORE;
	if (index < command->capacity)
		command->args[index] = (struct slice){data.data + reader->position, len};
	reader->position += len;
	reader->is_after_payload = true;
	return RESP_COMMAND;
}

/* Reads one element of an array. Returns RESP_COMMAND if it is complete. */
static enum resp_result read_element(struct resp_reader *reader, struct slice data,
                                     struct resp_command *command)
{
	if (!reader->is_after_payload) {
		enum resp_result result;

		if (reader->position >= data.len)
			return RESP_MORE;
		if (data.data[reader->position] == ':')
			return read_integer(reader, data, command);
		result = read_bulk_length(reader, data, command);
		if (result != RESP_COMMAND)
			return result;
	}
	if (reader->position + 2 > data.len)
		return RESP_MORE;
	if (data.data[reader->position] != '\r' || data.data[reader->position + 1] != '\n')
		return report_broken(command, "expected CRLF after an argument");
	reader->position += 2;
	reader->is_after_payload = false;
	reader->elements_left--;
	return RESP_COMMAND;
}

static enum resp_result read_array(struct resp_reader *reader, struct slice data,
                                   struct resp_command *command)
{
	enum resp_result result = RESP_COMMAND;
	/* While a command is skipped, `position` counts from the first byte that is not consumed. */
	bool is_at_start = reader->position == 0 && !reader->is_skipping;

	if (is_at_start) {
		result =
		    resp_read_length(data, &reader->position, RESP_ELEMENTS_MAX, &reader->element_count);
		if (result == RESP_BROKEN)
			return report_broken(command, "invalid multibulk length");
		reader->elements_left = reader->element_count;
	}
	while (result == RESP_COMMAND && reader->elements_left > 0)
		result = read_element(reader, data, command);
	command->count = reader->element_count;
	return result;
}

/*
 * Decodes the escape whose backslash is before `p`, such as n, x41 or ", to the byte *out. Returns
 * how many bytes it has besides the backslash.
 */
static size_t decode_escape(const char *p, const char *end, char *out)
{
	static const char names[] = "nrtba", values[] = "\n\r\t\b\a";
	const char *name = memchr(names, *p, sizeof names - 1);
	bool is_hex = *p == 'x' && end - p > 2 && hex_digit(p[1]) >= 0 && hex_digit(p[2]) >= 0;

	if (is_hex) {
		*out = (char)(hex_digit(p[1]) << 4 | hex_digit(p[2]));
		return 3;
	}
	*out = name ? values[name - names] : *p;
	return 1;
}

static bool is_separator(char c)
{
	return c == ' ' || (c >= '\t' && c <= '\r') || c == '\0';
}

/*
 * Reads the word at *from, removes its quotes and escapes in place, and moves *from behind it.
 * Returns false if a quote is not closed, or something follows it without a blank.
 */
static bool read_quoted_word(char **from, char *end, struct slice *word)
{
	char *p = *from, *out = p, quote = 0;

	*word = (struct slice){p, 0};
	while (p < end && (quote || !is_separator(*p))) {
		char c = *p++;

		if (!quote && (c == '"' || c == '\'')) {
			quote = c;
		} else if (quote && c == quote) {
			if (p < end && !is_separator(*p))
				return false;
			quote = 0;
		} else if (quote == '"' && c == '\\' && p < end) {
			p += decode_escape(p, end, out++);
		} else if (quote == '\'' && c == '\\' && p < end && *p == '\'') {
			*out++ = *p++;
		} else {
			*out++ = c;
		}
	}
	word->len = (size_t)(out - word->data);
	*from = p;
	return !quote;
}

/* Whether the first word is a method of HTTP or a field such as "Host:". */
static bool begins_like_http(struct slice word)
{
	/* The methods registered by IANA, without ACL, which Weir answers as Redis does; and UPnP's. */
	static const char methods[] =
	    "BASELINE-CONTROL BIND CHECKIN CHECKOUT CONNECT COPY DELETE GET HEAD LABEL LINK LOCK "
	    "M-SEARCH MERGE MKACTIVITY MKCALENDAR MKCOL MKREDIRECTREF MKWORKSPACE MOVE NOTIFY OPTIONS "
	    "ORDERPATCH PATCH POST PRI PROPFIND PROPPATCH PURGE PUT QUERY REBIND REPORT SEARCH TRACE "
	    "UNBIND UNCHECKOUT UNLINK UNLOCK UPDATE UPDATEREDIRECTREF VERSION-CONTROL";
	size_t len;

	if (word.len > 0 && memchr(word.data, ':', word.len))
		return true;
	for (const char *p = methods; *p; p += len + (p[len] == ' ')) {
		len = strcspn(p, " ");
		if (slice_equal_nocase(word, (struct slice){p, len}))
			return true;
	}
	return false;
}

/*
 * Whether a line such as "METHOD /a b HTTP/1.1" is a request line. A command of Weir, which has a
 * dot in its name, may end like this.
 */
static bool is_request_line(struct slice first, struct slice last)
{
	static const struct slice versions[] = {SLICE("HTTP/"), SLICE("RTSP/"), SLICE("SIP/"),
	                                        SLICE("ICAP/")};

	for (size_t i = 0; i < sizeof versions / sizeof *versions; i++) {
		struct slice begin = {last.data, versions[i].len};

		if (last.len > begin.len && slice_equal_nocase(begin, versions[i]))
			return !memchr(first.data, '.', first.len);
	}
	return false;
}

/* The client sends HTTP, probably a browser on behalf of a web page. */
static enum resp_result report_foreign(struct resp_command *command)
{
	report_broken(command, "expected RESP, found HTTP");
	return RESP_FOREIGN;
}

static enum resp_result read_line_words(char *line, char *end, struct resp_command *command)
{
	struct slice first = {NULL, 0}, word = first;

	for (command->count = 0;; command->count++) {
		while (line < end && is_separator(*line))
			line++;
		if (line == end)
			break;
		if (!read_quoted_word(&line, end, &word))
			return report_broken(command, "unbalanced quotes in request");
		if (command->count == 0)
			first = word;
		if (command->count == 0 && begins_like_http(first))
			return report_foreign(command);
		if (command->count < command->capacity)
			command->args[command->count] = word;
	}
	return command->count > 1 && is_request_line(first, word) ? report_foreign(command)
	                                                          : RESP_COMMAND;
}

/*
 * Reads an inline command. A web page can make a browser send HTTP to any port, with commands of
 * the page's choice in the body. So a first line in the form of HTTP ends the connection.
 */
static enum resp_result read_inline(struct resp_reader *reader, size_t max, struct slice data,
                                    struct arena *arena, struct resp_command *command)
{
	const char *newline = memchr(data.data + reader->position, '\n', data.len - reader->position);
	size_t len = newline ? (size_t)(newline - data.data) : data.len;
	char *line;

	/* For example the first byte of TLS, whose other bytes may never have an end of line. */
	if ((unsigned char)*data.data < ' ' && !is_separator(*data.data))
		return report_broken(command, "expected '*' or a word, got a control byte");
	reader->position = newline ? len + 1 : len;
	if (reader->position > max)
		return report_broken(command, "too big inline request");
	if (!newline)
		return RESP_MORE;
	line = arena_copy(arena, (struct slice){data.data, len});
	if (!line)
		return report_broken(command, "out of memory");
	return read_line_words(line, line + len, command);
}

/*
 * Consumes what has arrived of a command that is too long. If its element goes on behind `data`,
 * `position` is then how many of the next bytes belong to the element.
 */
static enum resp_result skip_bytes(struct resp_reader *reader, struct slice data, size_t *consumed)
{
	*consumed = u64_min(reader->position, data.len);
	reader->position -= *consumed;
	return *consumed > 0 ? RESP_SKIPPED : RESP_MORE;
}

/* Reads a command that is an array. Bytes of one that is too long are consumed as they arrive. */
static enum resp_result read_or_skip_array(struct resp_reader *reader, size_t max,
                                           struct slice data, struct resp_command *command,
                                           size_t *consumed)
{
	bool is_continued = reader->position > 0;
	enum resp_result result = read_array(reader, data, command);

	reader->is_skipping |= reader->position > max;
	if (reader->is_skipping && result == RESP_MORE)
		return skip_bytes(reader, data, consumed);
	if (result != RESP_COMMAND)
		return result;
	if (reader->is_skipping)
		return RESP_TOO_LONG;
	if (is_continued) { /* read it all again: the data may have moved since the first words */
		*reader = (struct resp_reader){0};
		read_array(reader, data, command);
	}
	return RESP_COMMAND;
}

/* Begins or continues to read a command of at most `max` bytes. */
enum resp_result resp_read(struct resp_reader *reader, size_t max, struct slice data,
                           struct arena *arena, struct resp_command *command, size_t *consumed)
{
	enum resp_result result;

	*consumed = 0;
	if (data.len == 0)
		return RESP_MORE;
	if (reader->is_skipping || data.data[0] == '*')
		result = read_or_skip_array(reader, max, data, command, consumed);
	else
		result = read_inline(reader, max, data, arena, command);
	if (result == RESP_MORE || result == RESP_SKIPPED)
		return result;
	*consumed = result == RESP_BROKEN || result == RESP_FOREIGN ? data.len : reader->position;
	*reader = (struct resp_reader){0};
	return result;
}

/* Enough for a type, a sign, 20 digits and CRLF. */
#define NUMBER_MAX 24

/* Returns the end of the text, such as ":-5\r\n". Numbers of two digits are frequent. */
static inline char *put_number(char *to, char type, bool minus, uint64_t magnitude)
{
	*to++ = type;
	if (minus)
		*to++ = '-';
	if (magnitude >= 10 && magnitude < 100) {
		*to++ = (char)('0' + (unsigned)magnitude / 10);
		*to++ = (char)('0' + (unsigned)magnitude % 10);
	} else {
		to = format_u64(to, magnitude);
	}
	return mempcpy(to, "\r\n", 2);
}

static inline char *put_integer(char *to, int64_t value)
{
	return value < 0 ? put_number(to, ':', true, 0 - (uint64_t)value)
	                 : put_number(to, ':', false, (uint64_t)value);
}

void resp_write_length(struct buffer *out, char type, uint64_t n)
{
	char *to = buffer_reserve(out, NUMBER_MAX);

	if (to)
		out->len += (size_t)(put_number(to, type, false, n) - to);
}

void resp_write_integer(struct buffer *out, int64_t value)
{
	char *to = buffer_reserve(out, NUMBER_MAX);

	if (to)
		out->len += (size_t)(put_integer(to, value) - to);
}

/* Begins an array of `elements`, and writes the first `n` of them. */
void resp_write_integers(struct buffer *out, uint64_t elements, const int64_t *values, size_t n)
{
	char *to = buffer_reserve(out, (1 + n) * NUMBER_MAX), *end;

	if (!to)
		return;
	end = put_number(to, '*', false, elements);
	for (size_t i = 0; i < n; i++)
		end = put_integer(end, values[i]);
	out->len += (size_t)(end - to);
}

void resp_write_bulk(struct buffer *out, struct slice text)
{
	char *to = buffer_reserve(out, text.len + NUMBER_MAX + 2), *end;

	if (!to)
		return;
	end = put_number(to, '$', false, text.len);
	if (text.len > 0)
		end = mempcpy(end, text.data, text.len);
	end = mempcpy(end, "\r\n", 2);
	out->len += (size_t)(end - to);
}

/* Control characters become blanks, so that `text` can not forge another reply. */
void resp_write_error(struct buffer *out, const char *code, struct slice text)
{
	char *to;

	buffer_add(out, "-", 1);
	buffer_add_text(out, code);
	to = buffer_reserve(out, text.len + 3);
	if (!to)
		return;
	*to++ = ' ';
	for (size_t i = 0; i < text.len; i++)
		*to++ = (unsigned char)text.data[i] < ' ' ? ' ' : text.data[i];
	memcpy(to, "\r\n", 2);
	out->len += text.len + 3;
}
