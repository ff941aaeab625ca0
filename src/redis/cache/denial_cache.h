/*
 * denial_cache.h: the answers of a store that a process may repeat without asking again. Its
 * threads share them.
 *
 * Most are denials. A request that explains a denial also asks the limits that did not deny, so
 * "this request would pass" is an answer, too, for such questions alone.
 *
 * A table of fixed size, in sets of four. The key, the parameters and the cost of the question find
 * an answer. The table repeats a denial no longer than Redis would give it. A full set drops the
 * answer that ends soonest.
 *
 * A refund or a reset of a key removes all its answers, and those under way are not stored. For
 * this, it raises a count, which the key shares with others; an answer carries the count from
 * before its question.
 *
 * Reading takes no lock; writers of one set take turns, for a few stores each.
 */
#ifndef REDIS_DENIAL_CACHE_H
#define REDIS_DENIAL_CACHE_H

#include "algo/algo.h"

struct denial_cache;

/* A question about a key; of a chunk (chunks.h) that for one unit. */
struct cache_name {
	uint64_t key;   /* a keyed hash */
	uint64_t which; /* a hash of the limit with all its parameters, and the cost */
};

/* An answer to it. Times are of one clock, which the caller knows. */
struct denial_cache_answer {
	uint64_t valid_until_ns; /* until then it need not be asked again */
	uint64_t until_ns;       /* the same request passes then, if no other comes first */
	uint64_t reset_ns;       /* the key is as new then */
	uint64_t remaining;
	uint64_t reason; /* enum weir_reason; WEIR_REASON_OK: the request would pass */
};

/** NULL if there is no memory. */
struct denial_cache *denial_cache_open(void);
/** NULL does nothing. */
void denial_cache_close(struct denial_cache *denials);

/** Whether denials of such a request may be repeated. */
bool denial_cache_applies(const struct algo_limit *limit, const struct algo_call *call);
struct cache_name denial_cache_name(const struct algo_limit *limit, const struct algo_call *call,
                                    uint64_t key);

/** Whether there is an answer at that time; fills `out`. */
bool denial_cache_find(const struct denial_cache *denials, const struct algo_limit *limit,
                       const struct algo_call *call, const struct cache_name *name, uint64_t now_ns,
                       struct algo_decision *out);
/** How many refunds and resets of the key there were so far, at least. */
uint32_t denial_cache_invalidations(const struct denial_cache *denials, uint64_t key);
/** Stores an answer; `count` is denial_cache_invalidations from before the question. */
void denial_cache_store(struct denial_cache *denials, const struct cache_name *name, uint32_t count,
                        const struct denial_cache_answer *answer);
/** A request of the key was granted: its answers would be given in other words now. */
void denial_cache_remove(struct denial_cache *denials, uint64_t key);
/** A request of the key is given back. */
void denial_cache_invalidate(struct denial_cache *denials, uint64_t key);

#endif
