/* number.c: parses and prints whole and decimal numbers; the locale does not matter. */
#include "base/number.h"

#include <endian.h>
#include <stdio.h>
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
	bool is_negative = text.len > 0 && text.data[0] == '-';
	uint64_t magnitude;

	if (is_negative)
		text = (struct slice){text.data + 1, text.len - 1};
	if (!parse_u64(text, &magnitude) || magnitude > (uint64_t)INT64_MAX + is_negative)
		return false;
	*out = is_negative ? (int64_t)(0 - magnitude) : (int64_t)magnitude;
	return true;
}

#define PLACES_MAX 19
#define DIGITS_END 1e19 /* numbers below have digits that fit in a uint64_t */

/* Exact up to 10^22, infinite from 10^309. */
static double power_of_ten(unsigned n)
{
	double power = 1;

	while (n-- > 0)
		power *= 10;
	return power;
}

/* A number is digits / 10^places. */
struct decimal {
	uint64_t digits;
	unsigned places;
};

#define SIGNIFICANT_DIGITS_END UINT64_C(100000000000000000) /* a double needs 17 digits */
#define EXPONENT_MAX           400                          /* 10^-400 and less is 0 */

/*
 * Parses the digits at the beginning, with at most one point between them, and cuts them off *text.
 * Refuses more than 18 digits before the point, and ignores further ones behind it.
 */
static bool cut_digits(struct slice *text, struct decimal *out)
{
	bool has_point = false, has_digit = false;

	*out = (struct decimal){0, 0};
	for (; text->len > 0; text->data++, text->len--) {
		unsigned digit = (unsigned char)*text->data - '0';

		if (*text->data == '.') {
			if (has_point || !has_digit)
				return false;
			has_point = true;
			has_digit = false; /* digits must follow the point */
			continue;
		}
		if (digit > 9)
			break;
		has_digit = true;
		if (out->digits < SIGNIFICANT_DIGITS_END) {
			out->digits = 10 * out->digits + digit;
			out->places += has_point;
		} else if (!has_point) {
			return false;
		}
	}
	return has_digit;
}

/* Parses digits, and behind them an optional exponent e-N. There is none without a minus. */
bool parse_decimal(struct slice text, double *out)
{
	struct decimal number;
	uint64_t exponent = 0;

	if (!cut_digits(&text, &number))
		return false;
	if (text.len > 0) {
		bool has_exponent = text.len > 2 && (*text.data | 32) == 'e' && text.data[1] == '-';

		if (!has_exponent || !parse_u64((struct slice){text.data + 2, text.len - 2}, &exponent))
			return false;
	}
	*out = (double)number.digits /
	       power_of_ten(number.places + (unsigned)u64_min(exponent, EXPONENT_MAX));
	return true;
}

bool parse_share(struct slice text, double *out)
{
	return parse_decimal(text, out) && *out <= 1;
}

static bool is_read_as(uint64_t digits, unsigned places, double value)
{
	return (double)digits / power_of_ten(places) == value;
}

static bool can_have_places(double value, unsigned places)
{
	return places <= PLACES_MAX && value * power_of_ten(places) < DIGITS_END;
}

/*
 * Writes the whole part, and decimal places until parse_decimal would read the text as `value`, or
 * no more digits fit.
 */
void format_decimal(char out[DECIMAL_TEXT_MAX], double value)
{
	uint64_t whole = (uint64_t)value;
	uint64_t digits = whole; /* value * 10^places, rounded */
	unsigned places = 0;

	while (!is_read_as(digits, places, value) && can_have_places(value, places + 1))
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

/*
 * Writes a number of two digits or more in decimal, up to eight digits at once, and returns the
 * end. format_u64 writes shorter ones itself.
 */
char *format_u64_slow(char *out, uint64_t value)
{
	uint64_t digits;
	unsigned leading_zeros;

	if (value >= EIGHT_DIGITS) {
		out = format_u64(out, value / EIGHT_DIGITS);
		return put_bytes(out, eight_digits(value % EIGHT_DIGITS) | EIGHT_ZEROS, 8);
	}
	digits = eight_digits(value);
	leading_zeros = (unsigned)__builtin_ctzll(digits) / 8; /* the first digit is the lowest byte */
	return put_bytes(out, (digits | EIGHT_ZEROS) >> 8 * leading_zeros, 8 - leading_zeros);
}

void format_size(char out[SIZE_TEXT_MAX], uint64_t bytes, bool round_up)
{
	static const char *const units[] = {"bytes", "kB", "MB", "GB", "TB", "PB", "EB"};
	uint64_t unit = 1, tenths;
	size_t i = 0;

	while (bytes / unit >= 1000) {
		unit *= 1000;
		i++;
	}
	tenths = (uint64_t)(((u128)bytes * 10 + (round_up ? unit - 1 : 0)) / unit);
	if (i > 0 && tenths < 100)
		snprintf(out, SIZE_TEXT_MAX, "%u.%u %s", (unsigned)(tenths / 10), (unsigned)(tenths % 10),
		         units[i]);
	else
		snprintf(out, SIZE_TEXT_MAX, "%u %s",
		         (unsigned)(((u128)bytes + (round_up ? unit - 1 : 0)) / unit), units[i]);
}

bool hex_is_valid(struct slice text, size_t count)
{
	if (text.len != count)
		return false;
	for (size_t i = 0; i < count; i++)
		if (hex_digit(text.data[i]) < 0)
			return false;
	return true;
}

struct slice hex_lower(struct slice text, char *out)
{
	for (size_t i = 0; i < text.len; i++)
		out[i] = (char)(text.data[i] | 32);
	return (struct slice){out, text.len};
}
