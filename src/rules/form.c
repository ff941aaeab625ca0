/*
 * form.c: parses the values of conditions that have a special form: ranges of numbers, addresses,
 * networks and patterns of addresses. All other values are texts.
 */
#include "rules/form.h"

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* Returns where the whole number ends that begins at `from`, or `from` if there is none. */
static size_t find_number_end(struct slice text, size_t from)
{
	size_t first = from + (from < text.len && text.data[from] == '-'), end = first;

	while (end < text.len && is_digit(text.data[end]))
		end++;
	return end == first ? from : end;
}

/* Reads "1-5"; the numbers may be negative. FORM_TEXT if it isn't two numbers and a dash. */
static enum form read_number_range(struct rules_value *out)
{
	struct slice text = out->text;
	size_t dash = find_number_end(text, 0);
	struct rules_numbers numbers;
	bool has_dash = dash > 0 && dash < text.len && text.data[dash] == '-';

	if (!has_dash || dash + 1 == text.len || find_number_end(text, dash + 1) != text.len)
		return FORM_TEXT;
	if (!parse_i64((struct slice){text.data, dash}, &numbers.first) ||
	    !parse_i64((struct slice){text.data + dash + 1, text.len - dash - 1}, &numbers.last) ||
	    numbers.first > numbers.last)
		return FORM_WRONG;
	out->test = RULES_NUMBERS;
	out->numbers = numbers;
	return FORM_READ;
}

/* A single address is only a text unless the attribute is an address (`is_ip`). */
enum form form_read(struct rules_value *out, bool is_ip, const char **expected)
{
	enum form form = read_number_range(out);
	struct ip ip;

	if (form == FORM_WRONG)
		*expected = FORM_EXPECTED_NUMBERS;
	if (form != FORM_TEXT)
		return form;
	if (ip_range_parse(out->text, &out->range)) {
		if (!is_ip && ip_parse(out->text, &ip))
			return FORM_TEXT;
		out->test = RULES_IP_RANGE;
		return FORM_READ;
	}
	if (ip_range_is_wrong(out->text)) {
		*expected = FORM_EXPECTED_ADDRESSES;
		return FORM_WRONG;
	}
	if (!ip_pattern_parse(out->text, &out->pattern))
		return FORM_TEXT;
	out->test = RULES_IP_PATTERN;
	return FORM_READ;
}

bool form_above(struct slice text, struct rules_value *out)
{
	int64_t bound;

	if (!parse_i64(text, &bound) || bound == INT64_MAX)
		return false;
	out->test = RULES_NUMBERS;
	out->numbers = (struct rules_numbers){bound + 1, INT64_MAX};
	return true;
}

bool form_below(struct slice text, struct rules_value *out)
{
	int64_t bound;

	if (!parse_i64(text, &bound) || bound == INT64_MIN)
		return false;
	out->test = RULES_NUMBERS;
	out->numbers = (struct rules_numbers){INT64_MIN, bound - 1};
	return true;
}
