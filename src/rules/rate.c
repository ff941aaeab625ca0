#include "rules/rate.h"

#include "base/number.h"

static const struct {
	struct slice name;
	enum weir_unit unit;
} units[] = {
    {{"ms", 2}, WEIR_MILLISECOND}, {{"s", 1}, WEIR_SECOND},  {{"m", 1}, WEIR_MINUTE},
    {{"h", 1}, WEIR_HOUR},         {{"d", 1}, WEIR_DAY},     {{"w", 1}, WEIR_WEEK},
    {{"month", 5}, WEIR_MONTH},    {{"year", 4}, WEIR_YEAR},
};

static bool unit_parse(struct slice name, enum weir_unit *out)
{
	for (size_t i = 0; i < sizeof units / sizeof *units; i++)
		if (slice_equal(name, units[i].name)) {
			*out = units[i].unit;
			return true;
		}
	return false;
}

bool rate_parse(struct slice text, struct weir_rate *out)
{
	const char *slash = text.len ? memchr(text.data, '/', text.len) : NULL;
	struct slice count, period, unit;

	if (!slash)
		return false;
	count = (struct slice){text.data, (size_t)(slash - text.data)};
	unit = (struct slice){slash + 1, text.len - count.len - 1};
	period = (struct slice){unit.data, 0};
	while (unit.len > 0 && *unit.data >= '0' && *unit.data <= '9') {
		unit.data++;
		unit.len--;
		period.len++;
	}
	*out = (struct weir_rate){.period = 1};
	return parse_u64(count, &out->count) && out->count > 0 &&
	       (period.len == 0 || parse_u64(period, &out->period)) && out->period > 0 &&
	       unit_parse(unit, &out->unit);
}

void rate_add(struct buffer *out, const struct weir_rate *rate)
{
	buffer_add_u64(out, rate->count);
	buffer_add(out, "/", 1);
	if (rate->period > 1)
		buffer_add_u64(out, rate->period);
	for (size_t i = 0; i < sizeof units / sizeof *units; i++)
		if (units[i].unit == rate->unit)
			buffer_add_slice(out, units[i].name);
}
