/* number.c: parses and prints whole and decimal numbers, independent of the locale. */
#include "base/number.h"

#include <endian.h>
#include <string.h>

bool parse_u64(struct slice text, uint64_t *out)
{
	uint64_t value = 0;

	if (text.len == 0)
		return false;
	for (size_t i = 0; i < text.len; i++) {
		unsigned digit = (unsigned char)text.data[i] - '0';

		if (digit > 9 || __builtin_mul_overflow(value, 10, &value) ||
		    __builtin_add_overflow(value, digit, &value))
			return false;
	}
	*out = value;
	return true;
}

bool parse_i64(struct slice text, int64_t *out)
{
	bool minus = text.len > 0 && text.data[0] == '-';
	uint64_t magnitude;

	if (minus)
		text = (struct slice){text.data + 1, text.len - 1};
	if (!parse_u64(text, &magnitude) || magnitude > (uint64_t)INT64_MAX + minus)
		return false;
	*out = minus ? (int64_t)(0 - magnitude) : (int64_t)magnitude;
	return true;
}

#define DECIMAL_PLACES 19 /* the most digits that always fit in a uint64_t */
#define DIGITS_MAX     1e19

/* Exact up to 10^22, infinite from 10^309. */
static double power_of_ten(unsigned n)
{
	double power = 1;

	while (n-- > 0)
		power *= 10;
	return power;
}

bool parse_decimal(struct slice text, double *out)
{
	uint64_t digits = 0, exponent = 0;
	unsigned places = 0;
	bool point = false, any = false;
	size_t i = 0;

	for (; i < text.len && ((text.data[i] >= '0' && text.data[i] <= '9') || text.data[i] == '.');
	     i++) {
		if (text.data[i] == '.') {
			if (point || !any)
				return false;
			point = true;
			any = false; /* digits must follow it */
			continue;
		}
		any = true;
		if (digits >= UINT64_C(100000000000000000)) { /* more digits than count */
			if (!point)
				return false;
			continue;
		}
		digits = 10 * digits + (uint64_t)(text.data[i] - '0');
		places += point;
	}
	if (!any)
		return false;
	if (i + 2 < text.len && (text.data[i] | 32) == 'e' && text.data[i + 1] == '-') {
		if (!parse_u64((struct slice){text.data + i + 2, text.len - i - 2}, &exponent))
			return false;
	} else if (i < text.len) {
		return false;
	}
	*out = (double)digits / power_of_ten(places + (unsigned)u64_min(exponent, 400));
	return true;
}

bool parse_share(struct slice text, double *out)
{
	return parse_decimal(text, out) && *out <= 1;
}

void format_decimal(char out[DECIMAL_TEXT_MAX], double value)
{
	uint64_t digits = (uint64_t)value, whole = digits;
	unsigned places = 0;

	while ((double)digits / power_of_ten(places) != value && places < DECIMAL_PLACES &&
	       value * power_of_ten(places + 1) < DIGITS_MAX)
		digits = (uint64_t)(value * power_of_ten(++places) + 0.5);
	out = format_u64(out, whole);
	if (places > 0)
		*out++ = '.';
	for (unsigned i = places; i > 0; i--, digits /= 10)
		out[i - 1] = (char)('0' + digits % 10);
	out[places] = '\0';
}

/*
 * Returns the eight decimal digits of `value`, which is below 10^8, as the bytes of a number. The
 * first digit is the lowest byte. The number is split into halves, quarters and single digits, all
 * parts at once. Each division is a multiplication whose result is exact in this range.
 */
static inline uint64_t eight_digits(uint64_t value)
{
	uint64_t halves = value / 10000 | value % 10000 << 32;
	uint64_t hundreds = halves * 10486 >> 20 & UINT64_C(0x0000007f0000007f);
	uint64_t quarters = hundreds | (halves - 100 * hundreds) << 16;
	uint64_t tens = quarters * 103 >> 10 & UINT64_C(0x000f000f000f000f);

	return tens | (quarters - 10 * tens) << 8;
}

/* Writes the `n` lowest bytes of `bytes`, 2 to 8, and no other. */
static inline char *put_bytes(char *out, uint64_t bytes, unsigned n)
{
	unsigned size = n >= 4 ? 4 : 2; /* two pieces of this size, which may overlap */
	uint64_t first = htole64(bytes), last = htole64(bytes >> 8 * (n - size));

	if (size == 4) {
		memcpy(out, &first, 4);
		memcpy(out + n - 4, &last, 4);
	} else {
		memcpy(out, &first, 2);
		memcpy(out + n - 2, &last, 2);
	}
	return out + n;
}

#define EIGHT_DIGITS UINT64_C(100000000)
#define EIGHT_ZEROS  UINT64_C(0x3030303030303030) /* '0' in each byte */

char *format_u64_slow(char *out, uint64_t value)
{
	uint64_t digits;
	unsigned zeros;

	if (value >= EIGHT_DIGITS) {
		out = format_u64(out, value / EIGHT_DIGITS);
		return put_bytes(out, eight_digits(value % EIGHT_DIGITS) | EIGHT_ZEROS, 8);
	}
	digits = eight_digits(value);
	zeros = (unsigned)__builtin_ctzll(digits) / 8;
	return put_bytes(out, (digits | EIGHT_ZEROS) >> 8 * zeros, 8 - zeros);
}
