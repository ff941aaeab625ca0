/*
 * forced_keys.h: records which keys an operator has forced into a phase, the operator and the
 * times.
 *
 * The phase itself is stored in the table, where it ends by itself and survives a restart if the
 * table is in a file. overrides.h does the same for limits.
 */
#ifndef SERVER_FORCED_KEYS_H
#define SERVER_FORCED_KEYS_H

#include "engine/plan/plan.h"
#include "server/admin/key_phases.h"
#include "server/admin/overrides.h"

#define FORCED_KEYS_MAX 1000

struct forced_keys {
	/* of `items` and `count`; recursive, because forcing a key calls decisions_count_phase */
	pthread_mutex_t mutex;
	struct list items;
	size_t count;
	/* for its log, and its descriptor that wakes the server's thread */
	struct overrides *overrides;
};

void forced_keys_open(struct forced_keys *forced, struct overrides *overrides);
void forced_keys_close(struct forced_keys *forced);

/** Between these two, no other thread forces a key. */
void forced_keys_lock(struct forced_keys *forced);
void forced_keys_unlock(struct forced_keys *forced);

/**
 * Forces a key as override->force says. `name` is its whole name, or has no data if only the hash
 * is known; `key` has the hash and the text to show. The time is override->at_ns, which is the time
 * of context->at too. Errors: as engine_force; EFULL if FORCED_KEYS_MAX keys are forced or the
 * table is full; ENOMEM.
 */
int forced_keys_set(struct forced_keys *forced, const struct decision_context *context,
                    const weir_limit *limit, struct slice name, const struct key_phase *key,
                    const struct override *override);

/** As key_phases_find_shown, for keys that are forced. */
size_t forced_keys_find_shown(struct forced_keys *forced, uint64_t limit, struct slice text,
                              struct key_phase *out);

/** Whether an operator has forced the key of that hash; if so, fills in `out`. */
bool forced_keys_find(struct forced_keys *forced, uint64_t hash, struct override *out);

/**
 * Copies the forced keys of the limit with that identity into `out`, which has space for
 * FORCED_KEYS_MAX. Returns how many.
 */
size_t forced_keys_list(struct forced_keys *forced, uint64_t limit, struct key_phase *out);

/** A key that an operator has forced. */
struct forced_key_copy {
	struct key_phase key; /* its phase is not set */
	struct override override;
};

/** Copies forced keys of all limits into `out`, `max` at most. Returns how many. */
size_t forced_keys_list_all(struct forced_keys *forced, struct forced_key_copy *out, size_t max);

/** Removes keys whose force has ended, as overrides_expire does. */
uint64_t forced_keys_expire(struct forced_keys *forced, const struct server_config *config,
                            uint64_t now_ns);

#endif
