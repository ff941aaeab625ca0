/*
 * names.h: the names of the keys that permits are of, by permit.
 *
 * A remote store has to be told a key's name to give back, and struct weir_permits has room for a
 * hash. So a table keeps the names of what its remote limits have handed out: the newest, up
 * to NAMES_MAX bytes. What has no name any more ends by itself.
 */
#ifndef API_NAMES_H
#define API_NAMES_H

#include "base/arena.h"
#include "engine/plan.h"

#define NAMES_MAX ((size_t)16 << 20)

struct names;

/** NULL: no memory. */
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
