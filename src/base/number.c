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
	char digits[20];
	size_t n = 0;

	do {
		digits[n++] = (char)('0' + value % 10);
		value /= 10;
	} while (value != 0);
	while (n > 0)
		*out++ = digits[--n];
	return out;
}
