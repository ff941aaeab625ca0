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

	if (!parse_u64((struct slice){text.data + minus, text.len - minus}, &magnitude) ||
	    magnitude > (uint64_t)INT64_MAX + minus)
		return false;
	*out = minus ? (int64_t)(0 - magnitude) : (int64_t)magnitude;
	return true;
}

char *format_u64(char *out, uint64_t value)
{
	static const char pairs[] = "00010203040506070809101112131415161718192021222324"
	                            "25262728293031323334353637383940414243444546474849"
	                            "50515253545556575859606162636465666768697071727374"
	                            "75767778798081828384858687888990919293949596979899";
	uint64_t bound = 10;
	char *end, *p;
	size_t n = 1;

	for (; n < 20 && value >= bound; bound *= 10)
		n++;
	end = p = out + n;
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
