/*
 * buffer.h: collects bytes in memory that grows up to a bound.
 *
 * A write that finds no memory, or would pass the bound, sets `failed`, and nothing is written from
 * then on. So the caller checks `failed` once at the end.
 */
#ifndef BASE_BUFFER_H
#define BASE_BUFFER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/slice.h"

struct buffer {
	char *data;
	size_t len;
	size_t capacity; /* at most max */
	size_t max;      /* 0 means no bound */
	bool failed;
};

char *buffer_reserve_slow(struct buffer *buffer, size_t len);

/**
 * Makes space for `len` more bytes and returns where they go, or NULL (failed). The caller adds to
 * buffer->len as many as it writes.
 */
static inline char *buffer_reserve(struct buffer *buffer, size_t len)
{
	if (len < buffer->capacity - buffer->len && !buffer->failed)
		return buffer->data + buffer->len;
	return buffer_reserve_slow(buffer, len);
}

static inline void buffer_add(struct buffer *buffer, const void *data, size_t len)
{
	char *to = buffer_reserve(buffer, len);

	if (to && len > 0) {
		memcpy(to, data, len);
		buffer->len += len;
	}
}

static inline void buffer_add_text(struct buffer *buffer, const char *text)
{
	buffer_add(buffer, text, strlen(text));
}

static inline void buffer_add_slice(struct buffer *buffer, struct slice text)
{
	buffer_add(buffer, text.data, text.len);
}

void buffer_add_u64(struct buffer *buffer, uint64_t value);
void buffer_printf(struct buffer *buffer, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/** Appends `text` as the inside of a JSON string: escaped, invalid UTF-8 replaced by U+FFFD. */
void buffer_add_json(struct buffer *buffer, struct slice text);
/** Appends `text` as a JSON string, with its quotes. */
void buffer_add_json_string(struct buffer *buffer, struct slice text);
/**
 * Appends `text` for a terminal: bytes of control characters, of characters that change the
 * direction of the text, and of invalid UTF-8 are written as \xHH.
 */
void buffer_add_printable(struct buffer *buffer, struct slice text);
/**
 * Returns the length of the valid UTF-8 sequence at `p`, or 0 if it is invalid (RFC 3629: no
 * overlong forms, no surrogates).
 */
size_t utf8_sequence(const unsigned char *p, size_t len);
/**
 * Whether a terminal may get the character at `p` as it is. `len` is what utf8_sequence returns for
 * it, so it is 0 if the character is invalid.
 */
bool utf8_is_printable(const unsigned char *p, size_t len);
/** Drops the first `len` bytes. */
void buffer_consume(struct buffer *buffer, size_t len);
/** Frees the memory behind the first `len` bytes. */
void buffer_trim(struct buffer *buffer);
void buffer_free(struct buffer *buffer);
/**
 * Overwrites the bytes, which were a secret, and frees the buffer. A buffer that grows leaves a
 * copy of the secret behind, so reserve all of its memory before the first write.
 */
void buffer_wipe(struct buffer *buffer);

#endif
