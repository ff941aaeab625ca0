/*
 * buffer.c: implements a growing buffer of bytes, to which numbers and escaped texts are appended.
 * After a write without memory, or past the buffer's bound, `failed` is set and nothing is written.
 */
#include "base/buffer.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"

/*
 * Doubles the memory until it holds `len` bytes, at most buffer->max. Returns false without memory.
 */
static bool grow_buffer(struct buffer *buffer, size_t len)
{
	size_t capacity = buffer->capacity ? buffer->capacity : 256;
	char *data;

	while (capacity < len)
		capacity *= 2;
	if (buffer->max && capacity > buffer->max)
		capacity = buffer->max;
	data = realloc(buffer->data, capacity);
	if (!data)
		return false;
	buffer->data = data;
	buffer->capacity = capacity;
	return true;
}

/* Returns where `len` more bytes go, or NULL: then the buffer has failed. */
char *buffer_reserve_slow(struct buffer *buffer, size_t len)
{
	size_t new_len;
	bool fits = !buffer->failed && !__builtin_add_overflow(buffer->len, len, &new_len) &&
	            (!buffer->max || new_len <= buffer->max);

	if (fits && (!buffer->data || new_len > buffer->capacity))
		fits = grow_buffer(buffer, new_len);
	buffer->failed = !fits;
	return fits ? buffer->data + buffer->len : NULL;
}

void buffer_add_u64(struct buffer *buffer, uint64_t value)
{
	char *to = buffer_reserve(buffer, 20);

	if (to)
		buffer->len += (size_t)(format_u64(to, value) - to);
}

void buffer_printf(struct buffer *buffer, const char *format, ...)
{
	va_list args;
	int len;
	char *to;

	va_start(args, format);
	len = vsnprintf(NULL, 0, format, args);
	va_end(args);
	to = len < 0 ? NULL : buffer_reserve(buffer, (size_t)len + 1);
	if (!to) {
		buffer->failed = true;
		return;
	}
	va_start(args, format);
	vsnprintf(to, (size_t)len + 1, format, args);
	va_end(args);
	buffer->len += (size_t)len;
}

/* Returns the length of the UTF-8 sequence at `p`, or 0 if it is not valid. */
size_t utf8_sequence(const unsigned char *p, size_t len)
{
	size_t n = p[0] < 0x80 ? 1 : p[0] < 0xe0 ? 2 : p[0] < 0xf0 ? 3 : 4;
	unsigned first_two;
	bool is_overlong, is_surrogate, is_too_large;

	if (n == 1)
		return 1;
	if (n > len || p[0] < 0xc2 || p[0] > 0xf4)
		return 0;
	for (size_t i = 1; i < n; i++)
		if ((p[i] & 0xc0) != 0x80)
			return 0;
	first_two = (unsigned)p[0] << 8 | p[1];
	is_overlong = (n == 3 && first_two < 0xe0a0) || (n == 4 && first_two < 0xf090);
	is_surrogate = p[0] == 0xed && p[1] >= 0xa0; /* U+D800 to U+DFFF */
	is_too_large = first_two > 0xf48f;           /* past U+10FFFF */
	return is_overlong || is_surrogate || is_too_large ? 0 : n;
}

/* Counts the leading bytes that are ASCII and need no escape in JSON. */
static size_t count_plain(const unsigned char *p, size_t len)
{
	static const bool is_plain[256] = {
	    [' ' ... '!'] = true,
	    ['#' ... '['] = true,
	    [']' ... '~'] = true,
	};
	size_t n = 0;

	while (n < len && is_plain[p[n]])
		n++;
	return n;
}

/* Appends the text as the inside of a JSON string; U+FFFD replaces bytes that are not UTF-8. */
void buffer_add_json(struct buffer *buffer, struct slice text)
{
	static const char hex[] = "0123456789abcdef";
	const unsigned char *p = (const unsigned char *)text.data, *end;

	if (text.len == 0) /* then `data` may be NULL */
		return;
	end = p + text.len;
	for (;;) {
		size_t plain = count_plain(p, (size_t)(end - p)), n;

		buffer_add(buffer, p, plain);
		p += plain;
		if (p == end)
			return;
		n = utf8_sequence(p, (size_t)(end - p));
		if (n == 0)
			buffer_add_text(buffer, "\xef\xbf\xbd");
		else if (*p == '"' || *p == '\\')
			buffer_add(buffer, (const char[]){'\\', (char)*p}, 2);
		else if (n == 1)
			buffer_add(buffer, (const char[]){'\\', 'u', '0', '0', hex[*p >> 4], hex[*p & 15]}, 6);
		else
			buffer_add(buffer, p, n);
		p += u64_max(n, 1);
	}
}

void buffer_add_json_string(struct buffer *buffer, struct slice text)
{
	buffer_add(buffer, "\"", 1);
	buffer_add_json(buffer, text);
	buffer_add(buffer, "\"", 1);
}

/*
 * Whether a character of `len` bytes changes the direction of the text or ends a line: U+061C,
 * U+200E, U+200F, U+2028 to U+202E, U+2066 to U+2069.
 */
static bool changes_direction(const unsigned char *p, size_t len)
{
	if (len == 2)
		return p[0] == 0xd8 && p[1] == 0x9c;
	if (len != 3 || p[0] != 0xe2)
		return false;
	return p[1] == 0x80 ? p[2] == 0x8e || p[2] == 0x8f || (p[2] >= 0xa8 && p[2] <= 0xae)
	                    : p[1] == 0x81 && p[2] >= 0xa6 && p[2] <= 0xa9;
}

bool utf8_is_printable(const unsigned char *p, size_t len)
{
	if (len == 0)
		return false;
	if (*p < 0x20 || *p == 0x7f || (*p == 0xc2 && p[1] < 0xa0)) /* control characters */
		return false;
	return !changes_direction(p, len);
}

/* Appends the text for a terminal: \xHH replaces each byte that could do harm there. */
void buffer_add_printable(struct buffer *buffer, struct slice text)
{
	const unsigned char *p = (const unsigned char *)text.data, *end = p + text.len;

	while (p < end) {
		size_t n = utf8_sequence(p, (size_t)(end - p)), consumed = u64_max(n, 1);

		if (utf8_is_printable(p, n))
			buffer_add(buffer, (const char *)p, n);
		else
			for (size_t i = 0; i < consumed; i++)
				buffer_printf(buffer, "\\x%02x", p[i]);
		p += consumed;
	}
}

void buffer_consume(struct buffer *buffer, size_t len)
{
	buffer->len -= len;
	if (buffer->len > 0)
		memmove(buffer->data, buffer->data + len, buffer->len);
}

/* Returns the unused memory to the system. */
void buffer_trim(struct buffer *buffer)
{
	char *data = buffer->len > 0 && buffer->len < buffer->capacity
	                 ? realloc(buffer->data, buffer->len)
	                 : NULL;

	if (!data)
		return;
	buffer->data = data;
	buffer->capacity = buffer->len;
}

void buffer_free(struct buffer *buffer)
{
	free(buffer->data);
	*buffer = (struct buffer){.max = buffer->max};
}

void buffer_wipe(struct buffer *buffer)
{
	if (buffer->data)
		explicit_bzero(buffer->data, buffer->capacity);
	buffer_free(buffer);
}
