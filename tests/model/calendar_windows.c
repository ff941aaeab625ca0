/*
 * calendar_windows: the windows of many instants, one a line, for test_calendar.py.
 *
 *     stdin   zone period unit week_start unix_ns    (unit and week_start as in weir.h)
 *     stdout  start_ns end_ns, or the error
 */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "algo/rates/calendar.h"
#include "base/time/zone.h"

int main(void)
{
	char name[80], open_name[80] = "";
	struct calendar calendar = {0};
	struct weir_error error;
	int status = WEIR_OK;
	unsigned unit, week_start;
	int64_t wall_ns;

	while (scanf("%79s %" SCNu64 " %u %u %" SCNd64, name, &calendar.period, &unit, &week_start,
	             &wall_ns) == 5) {
		if (strcmp(name, open_name) != 0) {
			zone_close(calendar.zone);
			status = zone_open(name, &calendar.zone, &error);
			strcpy(open_name, name);
		}
		if (status != WEIR_OK) {
			printf("%s\n", error.message);
			continue;
		}
		calendar.unit = unit;
		calendar.week_start = week_start;
		struct calendar_window window = calendar_window_at(&calendar, wall_ns);
		printf("%" PRId64 " %" PRId64 "\n", window.start_ns, window.end_ns);
	}
	zone_close(calendar.zone);
	return 0;
}
