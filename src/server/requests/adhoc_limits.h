/*
 * adhoc_limits.h: limits that travel in requests, remembered by their parameters.
 *
 * Making one takes a greatest common divisor and wide divisions; callers send
 * the same few again and again. One per worker.
 */
#ifndef SERVER_ADHOC_LIMITS_H
#define SERVER_ADHOC_LIMITS_H

#include "base/arena.h"
#include "engine/limit.h"
#include "proto/request.h"

#define ADHOC_SLOTS 128

struct adhoc {
	struct weir_limit any; /* for what needs no parameters: its states reach as far as any do */
	struct {
		struct request_adhoc params; /* count 0: empty */
		struct weir_limit limit;
	} slots[ADHOC_SLOTS];
	bool crowded;
};

/** Zeroed before. */
void adhoc_open(struct adhoc *adhoc);

/**
 * The limit of `params`; it stays until adhoc_end_batch, and `arena` is not
 * reset before. Where another limit has the slot it is made in the arena.
 * 0, or as engine_adhoc_limit, or ENOMEM.
 */
int adhoc_limit(struct adhoc *adhoc, const struct request_adhoc *params, struct arena *arena,
                struct weir_limit **out, struct weir_error *error);

/** No request refers to a limit any more: those give way that were in another's. */
void adhoc_end_batch(struct adhoc *adhoc);

#endif
