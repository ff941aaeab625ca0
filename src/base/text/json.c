#include "base/text/json.h"

#include "base/number.h"

#define REPLACEMENT 0xfffd

/* Reads "uXXXX" off *rest. False if it begins otherwise; *rest stays then. */
static bool read_unit(struct slice *rest, unsigned *out)
{
	struct slice text = *rest;
	unsigned unit = 0;

	if (!slice_skip(&text, SLICE("u")) || text.len < 4)
		return false;
	for (size_t i = 0; i < 4; i++) {
		int digit = hex_digit(text.data[i]);

		if (digit < 0)
			return false;
		unit = unit << 4 | (unsigned)digit;
	}
	*rest = (struct slice){text.data + 4, text.len - 4};
	*out = unit;
	return true;
}

static bool is_half(unsigned unit, bool low)
{
	return unit >> 10 == (low ? 0xdc00 : 0xd800) >> 10;
}

/* Reads the second half of a pair off *rest. */
static bool read_low(struct slice *rest, unsigned *low)
{
	struct slice text = *rest;

	if (!slice_skip(&text, SLICE("\\")) || !read_unit(&text, low) || !is_half(*low, true))
		return false;
	*rest = text;
	return true;
}

static char *put_utf8(char *to, unsigned character)
{
	static const unsigned char lead[] = {0, 0, 0xc0, 0xe0, 0xf0};
	size_t n = character < 0x80 ? 1 : character < 0x800 ? 2 : character < 0x10000 ? 3 : 4;

	for (size_t i = n - 1; i > 0; i--, character >>= 6)
		to[i] = (char)(0x80 | (character & 0x3f));
	*to = (char)(lead[n] | character);
	return to + n;
}

enum json_escape json_read_escape(struct slice *rest, char **to)
{
	static const char names[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
	const char *name = rest->len > 0 ? memchr(names, *rest->data, sizeof names - 1) : NULL;
	enum json_escape result = JSON_ESCAPE_GOOD;
	unsigned unit, low;

	if (name) {
		*(*to)++ = values[name - names];
		*rest = (struct slice){rest->data + 1, rest->len - 1};
		return JSON_ESCAPE_GOOD;
	}
	if (!read_unit(rest, &unit))
		return JSON_ESCAPE_BAD;
	if (is_half(unit, false) && read_low(rest, &low)) {
		unit = 0x10000 + ((unit & 0x3ff) << 10) + (low & 0x3ff);
	} else if (is_half(unit, false) || is_half(unit, true)) {
		unit = REPLACEMENT;
		result = JSON_ESCAPE_HALF;
	}
	*to = put_utf8(*to, unit);
	return result;
}

static size_t skip_digits(struct slice text, size_t from)
{
	while (from < text.len && text.data[from] >= '0' && text.data[from] <= '9')
		from++;
	return from;
}

/* JSON has no leading zeros and no plus, and a digit round each point. */
size_t json_number_len(struct slice text)
{
	size_t first = text.len > 0 && text.data[0] == '-', end = skip_digits(text, first), more;

	if (end == first || (text.data[first] == '0' && end > first + 1))
		return 0;
	if (end < text.len && text.data[end] == '.') {
		more = skip_digits(text, end + 1);
		if (more == end + 1)
			return 0;
		end = more;
	}
	if (end < text.len && (text.data[end] | 32) == 'e') {
		size_t from = end + 1;

		from += from < text.len && (text.data[from] == '-' || text.data[from] == '+');
		more = skip_digits(text, from);
		if (more == from)
			return 0;
		end = more;
	}
	return end;
}
