/* adhoc_command.h: limits that travel in requests, as redis-cell and throttlecrab have them. */
#ifndef PROTO_ADHOC_COMMAND_H
#define PROTO_ADHOC_COMMAND_H

#include "proto/fill.h"

/**
 * Fills in a REQUEST_ADHOC. `numbers`: max_burst, count, period and perhaps a quantity, each as
 * text. `min_burst` is 0 or 1: redis-cell's bursts have one token on top of max_burst,
 * throttlecrab's have not. 0, or a status with words in fill->error.
 */
int adhoc_read(struct fill *fill, struct slice key, const struct slice *numbers, size_t n,
               unsigned min_burst);

/** Seconds, rounded up as soon as a millisecond is left. */
uint64_t adhoc_seconds(uint64_t ns);

enum {
	THROTTLECRAB_ALLOWED,
	THROTTLECRAB_LIMIT,
	THROTTLECRAB_REMAINING,
	THROTTLECRAB_RESET,
	THROTTLECRAB_RETRY,
	THROTTLECRAB_COUNT
};

/** The values of throttlecrab's answer, in its order; times in whole seconds. */
void adhoc_throttlecrab(const struct reply *reply, int64_t values[THROTTLECRAB_COUNT]);

/**
 * Whether the reply is a decision: these limits deny a cost that could never pass, where
 * others answer with an error.
 */
static inline bool adhoc_is_decided(const struct reply *reply)
{
	return reply->status == 0 || reply->status == WEIR_ECOST;
}

#endif
