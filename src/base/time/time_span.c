/* time_span.c: writes a span of time for people, in its two largest units. */
#include "base/time/time_span.h"

#include "base/number.h"

#define MS_PER_S   1000
#define S_PER_MIN  60
#define S_PER_HOUR 3600
#define S_PER_DAY  86400

void time_span_add(struct buffer *out, uint64_t s)
{
	unsigned long long days = s / S_PER_DAY, hours = s % S_PER_DAY / S_PER_HOUR,
	                   minutes = s % S_PER_HOUR / S_PER_MIN, seconds = s % S_PER_MIN;

	if (days > 0)
		buffer_printf(out, "%llu d %llu h", days, hours);
	else if (hours > 0)
		buffer_printf(out, "%llu h %llu min", hours, minutes);
	else
		buffer_printf(out, "%llu min %llu s", minutes, seconds);
}

void time_span_add_wait(struct buffer *out, uint64_t ms)
{
	uint64_t s = ceil_div(ms, MS_PER_S);

	if (ms < MS_PER_S * S_PER_MIN) {
		buffer_printf(out, "%llu ms", (unsigned long long)ms);
		return;
	}
	if (s >= S_PER_HOUR)
		s = ceil_div(s, S_PER_MIN) * S_PER_MIN;
	if (s >= S_PER_DAY)
		s = ceil_div(s, S_PER_HOUR) * S_PER_HOUR;
	time_span_add(out, s);
}
