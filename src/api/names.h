/*
 * names.h: the names of the keys of permits, by permit.
 *
 * To give back, a remote store needs a key's name, but struct weir_permits has room only for a
 * hash. So a table keeps the names of its remote permits, the newest up to NAMES_MAX bytes. A
 * permit without a name ends by itself.
 */
#ifndef API_NAMES_H
#define API_NAMES_H

#include "base/arena.h"
#include "engine/plan/plan.h"

#define NAMES_MAX ((size_t)16 << 20)

struct names;

/** Returns NULL if there is no memory. */
struct names *names_open(void);
/** NULL does nothing. */
void names_close(struct names *names);

/** Keeps those of `permits`, until the last of its charges has ended. */
void names_keep(struct names *names, const struct weir_permits *permits,
                const struct engine_names *of, uint64_t now_ns);
/** Copies them into `arena`; there is none where data is NULL. 0 or ENOMEM. */
int names_find(struct names *names, uint64_t permit, struct arena *arena,
               struct engine_names *out);
/** When it was given back. */
void names_drop(struct names *names, uint64_t permit);

#endif
