#include "base/number.h"

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

/* 1 to 20. */
static unsigned count_digits(uint64_t value)
{
	static const uint64_t powers[] = {
	    1,
	    10,
	    100,
	    1000,
	    10000,
	    100000,
	    1000000,
	    10000000,
	    100000000,
	    1000000000,
	    UINT64_C(10000000000),
	    UINT64_C(100000000000),
	    UINT64_C(1000000000000),
	    UINT64_C(10000000000000),
	    UINT64_C(100000000000000),
	    UINT64_C(1000000000000000),
	    UINT64_C(10000000000000000),
	    UINT64_C(100000000000000000),
	    UINT64_C(1000000000000000000),
	    UINT64_C(10000000000000000000),
	};
	unsigned bits = 64 - (unsigned)__builtin_clzll(value | 1);
	unsigned least = bits * 1233 >> 12; /* 1233 / 4096: the digits of a bit, from below */

	return least + ((value | 1) >= powers[least]);
}

char *format_u64_slow(char *out, uint64_t value)
{
	static const char pairs[] = "00010203040506070809101112131415161718192021222324"
	                            "25262728293031323334353637383940414243444546474849"
	                            "50515253545556575859606162636465666768697071727374"
	                            "75767778798081828384858687888990919293949596979899";
	char *end = out + count_digits(value), *p = end;

	for (; value >= 100; value /= 100) {
		p -= 2;
		memcpy(p, pairs + 2 * (value % 100), 2);
	}
	if (value >= 10)
		memcpy(out, pairs + 2 * value, 2);
	else
		*out = (char)('0' + value);
	return end;
}
