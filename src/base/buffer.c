/* buffer.c: grows a buffer, and appends numbers and escaped texts to it. */
#include "base/buffer.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"

char *buffer_reserve_slow(struct buffer *buffer, size_t len)
{
	size_t need, capacity;
	char *data;

	if (buffer->failed || __builtin_add_overflow(buffer->len, len, &need) ||
	    (buffer->max && need > buffer->max)) {
		buffer->failed = true;
		return NULL;
	}
	if (!buffer->data || need > buffer->capacity) {
		capacity = buffer->capacity ? buffer->capacity : 256;
		while (capacity < need)
			capacity *= 2;
		if (buffer->max && capacity > buffer->max)
			capacity = buffer->max;
		data = realloc(buffer->data, capacity);
		if (!data) {
			buffer->failed = true;
			return NULL;
		}
		buffer->data = data;
		buffer->capacity = capacity;
	}
	return buffer->data + buffer->len;
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

size_t utf8_sequence(const unsigned char *p, size_t len)
{
	size_t n = p[0] < 0x80 ? 1 : p[0] >= 0xc2 && p[0] < 0xe0 ? 2 : (p[0] & 0xf0) == 0xe0 ? 3 : 4;
	unsigned second;

	if (n == 1)
		return 1;
	if (n > len || p[0] < 0xc2 || p[0] > 0xf4)
		return 0;
	for (size_t i = 1; i < n; i++)
		if ((p[i] & 0xc0) != 0x80)
			return 0;
	second = (unsigned)p[0] << 8 | p[1];
	if (second < 0xe0a0 && n == 3)
		return 0;
	if ((second >= 0xeda0 && n == 3 && p[0] == 0xed) || (n == 4 && (second < 0xf090 || second > 0xf48f)))
		return 0;
	return n;
}

/* Counts the bytes at the beginning that need no escape in JSON and are ASCII. */
static size_t plain_run(const unsigned char *p, size_t len)
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

void buffer_add_json(struct buffer *buffer, struct slice text)
{
	static const char hex[] = "0123456789abcdef";
	const unsigned char *p = (const unsigned char *)text.data, *end;

	if (text.len == 0) /* then `data` may be NULL */
		return;
	end = p + text.len;
	for (;;) {
		size_t n = plain_run(p, (size_t)(end - p));

		buffer_add(buffer, p, n);
		p += n;
		if (p == end)
			return;
		n = utf8_sequence(p, (size_t)(end - p));
		if (n == 0)
			buffer_add(buffer, "\xef\xbf\xbd", 3);
		else if (*p == '"' || *p == '\\')
			buffer_add(buffer, (const char[]){'\\', (char)*p}, 2);
		else if (n == 1)
			buffer_add(buffer, (const char[]){'\\', 'u', '0', '0', hex[*p >> 4], hex[*p & 15]}, 6);
		else
			buffer_add(buffer, p, n);
		p += u64_max(n, 1);
	}
}

/*
 * Whether a character changes the direction of the text or ends a line: U+061C, U+200E, U+200F,
 * U+2028 to U+202E, U+2066 to U+2069.
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

void buffer_add_shown(struct buffer *buffer, struct slice text)
{
	const unsigned char *p = (const unsigned char *)text.data, *end = p + text.len;

	while (p < end) {
		size_t n = utf8_sequence(p, (size_t)(end - p));
		bool control =
		    n == 0 || *p < 0x20 || *p == 0x7f || (*p == 0xc2 && p[1] < 0xa0) || changes_direction(p, n);

		if (!control)
			buffer_add(buffer, (const char *)p, n);
		for (size_t i = 0; control && i < u64_max(n, 1); i++)
			buffer_printf(buffer, "\\x%02x", p[i]);
		p += u64_max(n, 1);
	}
}

void buffer_consume(struct buffer *buffer, size_t len)
{
	buffer->len -= len;
	if (buffer->len > 0)
		memmove(buffer->data, buffer->data + len, buffer->len);
}

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
