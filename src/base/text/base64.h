/* base64.h: bytes as text (RFC 4648). */
#ifndef BASE_TEXT_BASE64_H
#define BASE_TEXT_BASE64_H

#include <stddef.h>
#include <stdint.h>

#include "base/slice.h"

/* How many characters `len` bytes take without padding. */
#define BASE64_LEN(len) (((len) * 4 + 2) / 3)

/** In the alphabet for URLs, without padding. Returns how many characters; there is room for them. */
size_t base64_url_encode(const uint8_t *bytes, size_t len, char *text);

/** Returns how many bytes; 0 when it is no such text, or of more than `room`. */
size_t base64_url_decode(struct slice text, uint8_t *bytes, size_t room);

/** The same in the common alphabet, with padding: up to 2 characters more. */
size_t base64_encode(const uint8_t *bytes, size_t len, char *text);

/** The same as base64_url_decode in the common alphabet; padding may be left out. */
size_t base64_decode(struct slice text, uint8_t *bytes, size_t room);

#endif
