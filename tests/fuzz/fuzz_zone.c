/* Reads any bytes as a time zone: it is refused, or its answers agree with each other. */
#include <stdint.h>
#include <stdlib.h>

#include "base/time/tzif.h"
#include "base/time/zone.h"
#include "base/time/zone.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const int64_t locals[] = {INT64_MIN, -86400, 0, 1700000000, INT64_C(1) << 50, INT64_MAX};
	struct zone *zone;

	if (tzif_parse(data, size, &zone, NULL) != WEIR_OK)
		return 0;
	for (size_t i = 0; i < sizeof locals / sizeof *locals; i++) {
		int64_t t = zone_first_instant(zone, locals[i]);

		if (locals[i] > INT64_MIN && locals[i] < INT64_MAX &&
		    (t + zone_offset(zone, t) < locals[i] || t - 1 + zone_offset(zone, t - 1) >= locals[i]))
			abort();
	}
	zone_close(zone);
	return 0;
}
