/*
 * adhoc_limits.h: makes limits of the parameters that come with a request, as with the command
 * CL.THROTTLE, and caches them.
 *
 * Making one takes a greatest common divisor and wide divisions, and callers send the same few
 * again and again. Each worker has a cache of its own.
 */
#ifndef SERVER_ADHOC_LIMITS_H
#define SERVER_ADHOC_LIMITS_H

#include "base/arena.h"
#include "engine/limit.h"
#include "proto/request.h"

#define ADHOC_SLOTS 128

struct adhoc {
	/*
	 * A limit whose states reach as far ahead as those of any other: for operations on a key whose
	 * limit is not known.
	 */
	struct weir_limit any_limit;
	struct {
		struct request_adhoc params; /* an empty slot has count 0 */
		struct weir_limit limit;
	} slots[ADHOC_SLOTS];
	bool has_collisions;
};

/** Opens a cache that is all zero. */
void adhoc_open(struct adhoc *adhoc);

/**
 * Finds or makes the limit of `params`. It stays until adhoc_release_limits; do not reset `arena`
 * before. If another limit has the slot, the new one is made in the arena. Returns 0, ENOMEM, or an
 * error of limit_init_adhoc.
 */
int adhoc_limit(struct adhoc *adhoc, const struct request_adhoc *params, struct arena *arena,
                struct weir_limit **out, struct weir_error *error);

/** Called when no request refers to a limit any more. Empties the cache if limits have collided. */
void adhoc_release_limits(struct adhoc *adhoc);

#endif
