#include "base/text/base64.h"

#define LETTERS "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789"

static const char url_digits[] = LETTERS "-_", common_digits[] = LETTERS "+/";

static size_t encode(const char digits[65], const uint8_t *bytes, size_t len, char *text)
{
	size_t n = 0;
	uint32_t bits = 0;
	unsigned held = 0;

	for (size_t i = 0; i < len; i++) {
		bits = bits << 8 | bytes[i];
		for (held += 8; held >= 6; held -= 6)
			text[n++] = digits[bits >> (held - 6) & 63];
	}
	if (held > 0)
		text[n++] = digits[bits << (6 - held) & 63];
	return n;
}

size_t base64_url_encode(const uint8_t *bytes, size_t len, char *text)
{
	return encode(url_digits, bytes, len, text);
}

size_t base64_encode(const uint8_t *bytes, size_t len, char *text)
{
	size_t n = encode(common_digits, bytes, len, text);

	while (n % 4 != 0)
		text[n++] = '=';
	return n;
}

static size_t decode(const char digits[65], struct slice text, uint8_t *bytes, size_t room)
{
	size_t n = 0;
	uint32_t bits = 0;
	unsigned held = 0;

	for (size_t i = 0; i < text.len; i++) {
		const char *digit = memchr(digits, text.data[i], 64);

		if (!digit)
			return 0;
		bits = bits << 6 | (uint32_t)(digit - digits);
		held += 6;
		if (held >= 8) {
			held -= 8;
			if (n == room)
				return 0;
			bytes[n++] = (uint8_t)(bits >> held);
		}
	}
	/* One text for the same bytes: nothing is left over. */
	return held < 6 && (bits & ((1u << held) - 1)) == 0 ? n : 0;
}

size_t base64_url_decode(struct slice text, uint8_t *bytes, size_t room)
{
	return decode(url_digits, text, bytes, room);
}

size_t base64_decode(struct slice text, uint8_t *bytes, size_t room)
{
	for (int i = 0; i < 2 && text.len > 0 && text.data[text.len - 1] == '='; i++)
		text.len--;
	return decode(common_digits, text, bytes, room);
}
