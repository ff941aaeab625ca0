/* base64.h: encodes bytes as text, and decodes them (RFC 4648). */
#ifndef BASE_TEXT_BASE64_H
#define BASE_TEXT_BASE64_H

#include <stddef.h>
#include <stdint.h>

#include "base/slice.h"

/* How many characters `len` bytes take without padding. */
#define BASE64_LEN(len) (((len) * 4 + 2) / 3)

/**
 * Encodes in the alphabet for URLs, without padding. Returns how many characters; `text` has space
 * for BASE64_LEN(len).
 */
size_t base64_url_encode(const uint8_t *bytes, size_t len, char *text);

/** Returns how many bytes, or 0 if the text is invalid or has more than `capacity` bytes. */
size_t base64_url_decode(struct slice text, uint8_t *bytes, size_t capacity);

/** Encodes in the common alphabet, with padding: up to 2 characters more than BASE64_LEN(len). */
size_t base64_encode(const uint8_t *bytes, size_t len, char *text);

/** As base64_url_decode, in the common alphabet; padding may be missing. */
size_t base64_decode(struct slice text, uint8_t *bytes, size_t capacity);

#endif
