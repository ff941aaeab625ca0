/*
 * top_denied.h: finds the keys that are denied most, in a fixed amount of memory.
 *
 * Counts fade: each minute halves them, so a denial counts 1 now and 1/1024 ten minutes later.
 * If W is the faded number of all denials, no pair of limit and key is counted too high by more
 * than W / TOP_COUNTERS, and every pair with more denials than that is listed. Halving rounds off
 * less than one denial for each thread.
 *
 * Threads: each loop counts under a mutex of its own. Only a client that asks for the list contends
 * for it, for a moment.
 */
#ifndef STATS_TOP_DENIED_H
#define STATS_TOP_DENIED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/buffer.h"
#include "base/slice.h"

#define TOP_COUNTERS  256
#define TOP_KEY_MAX   64 /* bytes kept of a key's name */
#define TOP_SHOWN_MAX 100

struct top;

struct top *top_open(size_t loops); /* NULL if out of memory */
void top_close(struct top *top);

/**
 * A denial of a key. `hash` is that of limit and key, `limit` a name that lives
 * as long as `top`; of `key` a copy of TOP_KEY_MAX bytes is kept.
 */
void top_count_denial(struct top *top, size_t loop, uint64_t hash, const char *limit,
                      struct slice key, uint64_t now_ns);

/**
 * Counts a denial of a pair that has a counter already. Otherwise returns false, and has counted
 * nothing: then a caller whose name of the key takes time to make calls top_count_denial.
 */
bool top_count_known(struct top *top, size_t loop, uint64_t hash, uint64_t now_ns);

/** Finds a counted pair by the name of its limit and the whole key; fills in *hash. */
bool top_find(struct top *top, const char *limit, struct slice key, uint64_t *hash);

struct top_entry {
	uint64_t hash;
	const char *limit;
	struct slice key; /* the bytes of it that were kept */
	bool cut;         /* the key was longer */
	uint64_t denied;
	uint64_t excess_max; /* by how much `denied` may be too high */
};

/**
 * The most denied pairs, most denied first, at most *n; *n is how many. Returns NULL if out of
 * memory.
 */
struct top_entry *top_list(struct top *top, size_t *n, uint64_t now_ns, struct arena *arena);

/* For each n, where the array of the first n pairs ends in the text, but for its bracket. */
struct top_ends {
	size_t count;
	size_t at[TOP_SHOWN_MAX + 1];
};

/** Appends TOP_SHOWN_MAX of them as a JSON array. 0 or ENOMEM. */
int top_render(struct top *top, uint64_t now_ns, struct arena *arena, struct buffer *out,
               struct top_ends *ends);
/** The array of the first `n` pairs at most: `text` itself, or in the arena; no data: ENOMEM. */
struct slice top_first(struct slice text, const struct top_ends *ends, size_t n,
                       struct arena *arena);

#endif
