/*
 * rate.c: parses and prints rates such as 5/s and durations such as 250ms, and guesses the rate
 * that a wrong text means.
 */
#include "rules/rate.h"

#include <stdio.h>

#include "algo/algo.h"
#include "base/number.h"
#include "base/time/timestamp.h"

static const struct unit {
	struct slice name;
	enum weir_unit unit;
	uint64_t ns; /* 0 if it depends on the calendar */
} units[] = {
    {{"ms", 2}, WEIR_UNIT_MILLISECOND, NS_PER_MS},
    {{"s", 1}, WEIR_UNIT_SECOND, NS_PER_S},
    {{"m", 1}, WEIR_UNIT_MINUTE, 60 * NS_PER_S},
    {{"h", 1}, WEIR_UNIT_HOUR, 3600 * NS_PER_S},
    {{"d", 1}, WEIR_UNIT_DAY, NS_PER_DAY},
    {{"w", 1}, WEIR_UNIT_WEEK, 7 * NS_PER_DAY},
    {{"month", 5}, WEIR_UNIT_MONTH, 0},
    {{"year", 4}, WEIR_UNIT_YEAR, 0},
};
enum { UNIT_COUNT = sizeof units / sizeof *units };

/* Returns the index of a unit, or UNIT_COUNT if no unit has that name. */
static size_t find_unit(struct slice name)
{
	size_t i = 0;

	while (i < UNIT_COUNT && !slice_equal(name, units[i].name))
		i++;
	return i;
}

/* Cuts the digits that `text` begins with off it. */
static struct slice cut_digits(struct slice *text)
{
	struct slice digits = {text->data, 0};

	while (text->len > 0 && *text->data >= '0' && *text->data <= '9') {
		text->data++;
		text->len--;
		digits.len++;
	}
	return digits;
}

bool rate_parse(struct slice text, struct weir_rate *out)
{
	struct slice count = slice_cut(&text, '/'), period = cut_digits(&text);
	size_t unit = find_unit(text);

	*out = (struct weir_rate){.period = 1};
	if (unit == UNIT_COUNT || !parse_u64(count, &out->count) || out->count == 0 ||
	    (period.len > 0 && !parse_u64(period, &out->period)) || out->period == 0)
		return false;
	out->unit = units[unit].unit;
	return true;
}

/* Words for units that people write, each also with an s behind it, so "ms" stands before "m". */
static const struct {
	const char *word, *unit;
} unit_words[] = {
    {"ms", "ms"},       {"millisecond", "ms"},
    {"milli", "ms"},    {"msec", "ms"},
    {"second", "s"},    {"sec", "s"},
    {"minute", "m"},    {"min", "m"},
    {"hour", "h"},      {"hr", "h"},
    {"day", "d"},       {"week", "w"},
    {"wk", "w"},        {"mon", "month"},
    {"month", "month"}, {"year", "year"},
    {"yr", "year"},     {"s", "s"},
    {"m", "m"},         {"h", "h"},
    {"d", "d"},         {"w", "w"},
};

#define DECIMALS_MAX 6

/* Reads a count such as 0.5, as a fraction in lowest terms. */
static bool parse_fraction(struct slice text, uint64_t *numerator, uint64_t *denominator)
{
	struct slice decimals = text, whole = slice_cut(&decimals, '.');
	uint64_t whole_number, fraction = 0, divisor;

	*denominator = 1;
	if (!parse_u64(whole, &whole_number) || whole_number > UINT32_MAX)
		return false;
	if (whole.len < text.len && (decimals.len > DECIMALS_MAX || !parse_u64(decimals, &fraction)))
		return false;
	for (size_t i = 0; whole.len < text.len && i < decimals.len; i++)
		*denominator *= 10;
	*numerator = whole_number * *denominator + fraction;
	divisor = gcd_u64(*numerator, *denominator);
	*numerator /= divisor;
	*denominator /= divisor;
	return true;
}

/* Cuts the count off the text, and the slash or the word "per" behind it. */
static struct slice cut_count(struct slice *text)
{
	static const struct slice per = SLICE(" per ");
	struct slice rest = *text, count = slice_cut(&rest, '/');
	const char *found = memmem(text->data, text->len, per.data, per.len);

	if (count.len == text->len && found) {
		count.len = (size_t)(found - text->data);
		rest.data = found + per.len;
		rest.len = (size_t)(text->data + text->len - rest.data);
	}
	*text = slice_trim(rest);
	return slice_trim(count);
}

/*
 * Tries each word for a unit, in upper or lower case, with blanks between. A count such as 0.5
 * makes the period longer. Returns false without a guess.
 */
bool rate_meant(struct slice text, char out[RATE_TEXT_MAX])
{
	struct slice rest = text, count_text = cut_count(&rest), period_text = cut_digits(&rest);
	uint64_t count, period = 1, periods;
	char digits[24] = "";
	struct weir_rate rate;

	if (!parse_fraction(count_text, &count, &periods) ||
	    (period_text.len > 0 && !parse_u64(period_text, &period)) || period > UINT32_MAX)
		return false;
	if (period_text.len > 0 || periods > 1)
		snprintf(digits, sizeof digits, "%llu", (unsigned long long)(period * periods));
	rest = slice_trim(rest);
	for (size_t i = 0; i < sizeof unit_words / sizeof *unit_words; i++) {
		size_t len = strlen(unit_words[i].word);
		bool is_plural = rest.len == len + 1 && (rest.data[len] | 32) == 's';

		if ((rest.len != len && !is_plural) || strncasecmp(rest.data, unit_words[i].word, len) != 0)
			continue;
		snprintf(out, RATE_TEXT_MAX, "%llu/%s%s", (unsigned long long)count, digits,
		         unit_words[i].unit);
		return rate_parse(slice_of(out), &rate);
	}
	return false;
}

bool duration_parse(struct slice text, uint64_t *ns)
{
	struct slice digits = cut_digits(&text);
	size_t unit = find_unit(text);
	uint64_t number;

	if (unit == UNIT_COUNT || units[unit].ns == 0 || !parse_u64(digits, &number) ||
	    number > ALGO_PERIOD_MAX_NS / units[unit].ns)
		return false;
	*ns = number * units[unit].ns;
	return true;
}

bool since_parse(struct slice text, uint64_t now_ns, uint64_t *since_ns)
{
	uint64_t ago_ns;

	if (!duration_parse(text, &ago_ns))
		return timestamp_parse(text, since_ns);
	*since_ns = sat_sub(now_ns, ago_ns);
	return true;
}

void duration_add(struct buffer *out, uint64_t ns)
{
	size_t unit = ns == 0; /* 0 is written 0s: seconds are unit 1, milliseconds unit 0 */

	for (size_t i = 0; i < UNIT_COUNT; i++)
		if (ns > 0 && units[i].ns && ns % units[i].ns == 0)
			unit = i;
	buffer_add_u64(out, ns / units[unit].ns);
	buffer_add_slice(out, units[unit].name);
}

void rate_add(struct buffer *out, const struct weir_rate *rate)
{
	buffer_add_u64(out, rate->count);
	buffer_add(out, "/", 1);
	if (rate->period > 1)
		buffer_add_u64(out, rate->period);
	for (size_t i = 0; i < UNIT_COUNT; i++)
		if (units[i].unit == rate->unit)
			buffer_add_slice(out, units[i].name);
}
