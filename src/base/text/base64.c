/* base64.c: encodes and decodes base64 in the common alphabet and the one for URLs (RFC 4648). */
#include "base/text/base64.h"

#define LETTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"

static const char url_digits[] = LETTERS "-_", common_digits[] = LETTERS "+/";

/* Writes a digit for each six bits, without padding. Returns how many digits. */
static size_t encode_digits(const char digits[65], const uint8_t *bytes, size_t len, char *text)
{
	size_t n = 0;
	uint32_t bits = 0;
	unsigned pending_bits = 0; /* the lowest of `bits`, which are not written yet */

	for (size_t i = 0; i < len; i++) {
		bits = bits << 8 | bytes[i];
		for (pending_bits += 8; pending_bits >= 6; pending_bits -= 6)
			text[n++] = digits[bits >> (pending_bits - 6) & 63];
	}
	if (pending_bits > 0)
		text[n++] = digits[bits << (6 - pending_bits) & 63];
	return n;
}

size_t base64_url_encode(const uint8_t *bytes, size_t len, char *text)
{
	return encode_digits(url_digits, bytes, len, text);
}

size_t base64_encode(const uint8_t *bytes, size_t len, char *text)
{
	size_t n = encode_digits(common_digits, bytes, len, text);

	while (n % 4 != 0)
		text[n++] = '=';
	return n;
}

/* Returns how many bytes, or 0 if the text is invalid or has more than `capacity` bytes. */
static size_t decode_digits(const char digits[65], struct slice text, uint8_t *bytes,
                            size_t capacity)
{
	size_t n = 0;
	uint32_t bits = 0;
	unsigned pending_bits = 0; /* the lowest of `bits`, which are not written yet */

	for (size_t i = 0; i < text.len; i++) {
		const char *digit = memchr(digits, text.data[i], 64);

		if (!digit)
			return 0;
		bits = bits << 6 | (uint32_t)(digit - digits);
		pending_bits += 6;
		if (pending_bits >= 8) {
			pending_bits -= 8;
			if (n == capacity)
				return 0;
			bytes[n++] = (uint8_t)(bits >> pending_bits);
		}
	}
	/* Bits left over must be 0, so that no other text has the same bytes. */
	return pending_bits < 6 && (bits & ((1u << pending_bits) - 1)) == 0 ? n : 0;
}

size_t base64_url_decode(struct slice text, uint8_t *bytes, size_t capacity)
{
	return decode_digits(url_digits, text, bytes, capacity);
}

size_t base64_decode(struct slice text, uint8_t *bytes, size_t capacity)
{
	for (int i = 0; i < 2 && text.len > 0 && text.data[text.len - 1] == '='; i++)
		text.len--;
	return decode_digits(common_digits, text, bytes, capacity);
}
