/*
 * names.h: stores the names of the keys that permits have charged, so that a permit can be
 * refunded.
 *
 * A remote store needs the name of a key to refund its charge, but struct weir_permits has space
 * only for a hash. So a table stores the names for its remote permits, up to NAMES_MAX bytes; the
 * oldest go first. A permit whose names are gone can't be refunded, and ends by itself.
 */
#ifndef API_NAMES_H
#define API_NAMES_H

#include "base/arena.h"
#include "engine/plan/plan.h"

#define NAMES_MAX ((size_t)16 << 20)

struct names;

/** Returns NULL if there is no memory. */
struct names *names_open(void);
/** `names` may be NULL. */
void names_close(struct names *names);

/** Stores the names of the keys of `permits` until the last of its charges has ended. */
void names_store(struct names *names, const struct weir_permits *permits,
                 const struct engine_names *key_names, uint64_t now_ns);
/**
 * Copies the names of a permit's keys into `arena`. A name that is not stored has the data NULL.
 * Returns 0 or ENOMEM.
 */
int names_copy(struct names *names, uint64_t permit, struct arena *arena, struct engine_names *out);
/** Removes the names of a permit that was refunded. */
void names_remove(struct names *names, uint64_t permit);

#endif
