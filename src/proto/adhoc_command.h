/* adhoc_command.h: reads and answers requests that carry the parameters of their limit, as those of
 * redis-cell (CL.THROTTLE) and throttlecrab (THROTTLE, POST /throttle) do. */
#ifndef PROTO_ADHOC_COMMAND_H
#define PROTO_ADHOC_COMMAND_H

#include "proto/fill.h"

/* The smallest max_burst that a client may send. */
#define REDIS_CELL_MIN_BURST   0u
#define THROTTLECRAB_MIN_BURST 1u
/* The largest burst and count of a limit, and its longest period. */
#define ADHOC_COUNT_MAX    (INT64_C(1) << 32)
#define ADHOC_PERIOD_MAX_S (INT64_C(366) * 86400)

/**
 * Fills in a REQUEST_ADHOC from the texts max_burst, count, period and optionally quantity.
 * `min_burst` says whose request it is: redis-cell's burst is max_burst + 1, throttlecrab's is
 * max_burst. Returns 0, or a status with a message in fill->error.
 */
int adhoc_read(struct fill *fill, struct slice key, const struct slice *numbers, size_t n,
               unsigned min_burst);

/** Whole seconds; a part of a second counts as one if it has a millisecond. */
uint64_t adhoc_seconds(uint64_t ns);

enum {
	THROTTLECRAB_ALLOWED,
	THROTTLECRAB_LIMIT,
	THROTTLECRAB_REMAINING,
	THROTTLECRAB_RESET,
	THROTTLECRAB_RETRY,
	THROTTLECRAB_COUNT
};

/** The values of a reply in throttlecrab's order; times in whole seconds. */
void adhoc_throttlecrab_values(const struct reply *reply, int64_t values[THROTTLECRAB_COUNT]);

/**
 * Whether the reply is a decision. These commands deny a cost that could never pass; for other
 * requests it is an error.
 */
static inline bool adhoc_is_decided(const struct reply *reply)
{
	return reply->status == 0 || reply->status == WEIR_ECOST;
}

#endif
