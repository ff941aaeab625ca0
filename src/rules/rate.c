/* rate.c: parses and prints rates and durations, and guesses the meaning of wrong ones. */
#include "rules/rate.h"

#include <stdio.h>

#include "algo/algo.h"
#include "base/number.h"

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
enum { UNITS = sizeof units / sizeof *units };

/* Returns UNITS if no unit has that name. */
static size_t unit_find(struct slice name)
{
	size_t i = 0;

	while (i < UNITS && !slice_equal(name, units[i].name))
		i++;
	return i;
}

/* Cuts the digits that `text` begins with off it. */
static struct slice digits_cut(struct slice *text)
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
	struct slice count = slice_cut(&text, '/'), period = digits_cut(&text);
	size_t unit = unit_find(text);

	*out = (struct weir_rate){.period = 1};
	if (unit == UNITS || !parse_u64(count, &out->count) || out->count == 0 ||
	    (period.len > 0 && !parse_u64(period, &out->period)) || out->period == 0)
		return false;
	out->unit = units[unit].unit;
	return true;
}

/* Words for units that people write, each also with an s behind it. */
static const struct {
	const char *word, *unit;
} spelled[] = {
    {"millisecond", "ms"},
    {"milli", "ms"},
    {"msec", "ms"},
    {"second", "s"},
    {"sec", "s"},
    {"minute", "m"},
    {"min", "m"},
    {"hour", "h"},
    {"hr", "h"},
    {"day", "d"},
    {"week", "w"},
    {"wk", "w"},
    {"mon", "month"},
    {"month", "month"},
    {"year", "year"},
    {"yr", "year"},
    {"s", "s"},
    {"m", "m"},
    {"h", "h"},
    {"d", "d"},
    {"w", "w"},
    {"ms", "ms"},
};

bool rate_meant(struct slice text, char out[RATE_TEXT_MAX])
{
	struct slice whole = text, count = slice_trim(slice_cut(&text, '/'));
	struct slice rest = slice_trim(text), period = digits_cut(&rest);
	struct weir_rate rate;

	if (count.len == 0 || whole.len >= RATE_TEXT_MAX / 2)
		return false;
	rest = slice_trim(rest);
	for (size_t i = 0; i < sizeof spelled / sizeof *spelled; i++) {
		size_t len = strlen(spelled[i].word);
		bool many = rest.len == len + 1 && (rest.data[len] | 32) == 's';

		if ((rest.len != len && !many) || strncasecmp(rest.data, spelled[i].word, len) != 0)
			continue;
		snprintf(out, RATE_TEXT_MAX, "%.*s/%.*s%s", (int)count.len, count.data, (int)period.len,
		         period.data, spelled[i].unit);
		return rate_parse(slice_of(out), &rate);
	}
	return false;
}

bool duration_parse(struct slice text, uint64_t *ns)
{
	struct slice digits = digits_cut(&text);
	size_t unit = unit_find(text);
	uint64_t number;

	if (unit == UNITS || units[unit].ns == 0 || !parse_u64(digits, &number) ||
	    number > ALGO_PERIOD_MAX_NS / units[unit].ns)
		return false;
	*ns = number * units[unit].ns;
	return true;
}

void duration_add(struct buffer *out, uint64_t ns)
{
	size_t unit = ns == 0; /* none is 0s */

	for (size_t i = 0; i < UNITS; i++)
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
	for (size_t i = 0; i < UNITS; i++)
		if (units[i].unit == rate->unit)
			buffer_add_slice(out, units[i].name);
}
