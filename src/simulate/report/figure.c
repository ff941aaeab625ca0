/* figure.c: writes durations and shares for people. */
#include "simulate/report/figure.h"

#include <math.h>
#include <stdio.h>

#include "base/number.h"
#include "base/time/timestamp.h"

void figure_add_duration(struct buffer *out, int width, uint64_t ns)
{
	static const struct {
		const char *name;
		uint64_t ns;
	} units[] = {{"d", NS_PER_DAY}, {"h", 3600 * NS_PER_S}, {"m", 60 * NS_PER_S},
	             {"s", NS_PER_S},   {"ms", NS_PER_MS},      {"us", 1000},
	             {"ns", 1}};
	char text[32];
	size_t i = 0;

	/* A value that rounds up to the next unit, such as 999.9 ms, is shown in that unit. */
	while (i < 6 && ns + ns / 1999 < units[i].ns)
		i++;
	snprintf(text, sizeof text, "%.3g %s", (double)ns / (double)units[i].ns, units[i].name);
	buffer_printf(out, "%*s", width, ns ? text : "-");
}

void figure_add_percent(struct buffer *out, int width, double part, double whole)
{
	double percent = whole > 0 ? 100.0 * part / whole : 0;
	char text[32];

	if (part <= 0 || part >= whole)
		snprintf(text, sizeof text, "%s", part <= 0 ? "0%" : "100%");
	else if (percent < 0.01 || percent > 99.99)
		snprintf(text, sizeof text, "%s", percent < 50 ? "<0.01%" : ">99.99%");
	else if (percent < 9.95)
		snprintf(text, sizeof text, "%.*g%%", percent < 0.95 ? 1 : 2, percent);
	else
		snprintf(text, sizeof text, "%.*f%%", percent < 99 ? 0 : percent < 99.9 ? 1 : 2, percent);
	buffer_printf(out, "%*s", width, text);
}
