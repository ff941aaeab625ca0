/*
 * forced_keys.h: the keys that an operator has forced into a phase, as overrides.h has switched
 * limits.
 *
 * The phase itself stands in the table, where it ends by itself and a file keeps it over a restart.
 * Here stand the operator, the time, and the end.
 */
#ifndef SERVER_FORCED_KEYS_H
#define SERVER_FORCED_KEYS_H

#include "engine/plan/plan.h"
#include "server/admin/key_phases.h"
#include "server/admin/overrides.h"

#define FORCED_KEYS_MAX 1000 /* keys at once */

struct forced_keys {
	pthread_mutex_t mutex; /* of what follows; recursive, since a force is noted under it */
	struct list items;
	size_t count;
	struct overrides *overrides; /* whose log is written to, and whose thread is woken */
};

void forced_keys_open(struct forced_keys *forced, struct overrides *overrides);
void forced_keys_close(struct forced_keys *forced);

/** Between these, no key is forced by another thread. */
void forced_keys_lock(struct forced_keys *forced);
void forced_keys_unlock(struct forced_keys *forced);

/**
 * Forces a key as switched->force says, at switched->at_ns, which context->at is, too.
 * Errors: as engine_force; EFULL: FORCED_KEYS_MAX keys are forced, or the table is full; ENOMEM.
 */
int forced_keys_set(struct forced_keys *forced, const struct decision_context *context,
                    const weir_limit *limit, struct slice key, const struct override *override);

/** Whether somebody has forced the key of that hash, and how. */
bool forced_keys_find(struct forced_keys *forced, uint64_t hash, struct override *out);

/** Copies the keys of a limit (its identity) that are forced: `out` has FORCED_KEYS_MAX. How many.
 */
size_t forced_keys_list(struct forced_keys *forced, uint64_t limit, struct key_phase *out);

/** Forgets what is over; as overrides_expire. */
uint64_t forced_keys_expire(struct forced_keys *forced, const struct server_config *config,
                            uint64_t now_ns);

#endif
