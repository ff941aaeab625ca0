/*
 * denial_cache.h: caches the answers of a store that a process may repeat without asking Redis
 * again. Its threads share them.
 *
 * Most answers are denials. A request that explains a denial also asks the limits that did not
 * deny; for such requests alone, "this request would pass" is an answer, too.
 *
 * The table has a fixed size, in sets of four. The key, the parameters and the cost of the request
 * find an answer. A denial is repeated no longer than Redis would give it. A full set drops the
 * answer that ends soonest.
 *
 * A refund or a reset of a key removes all its answers, and answers that are under way are not
 * stored. For this, it raises a count, which the key shares with others; an answer is stored only
 * with the count from before its request.
 *
 * Reading takes no lock; writers of one set take turns, for a few stores each.
 */
#ifndef REDIS_DENIAL_CACHE_H
#define REDIS_DENIAL_CACHE_H

#include "algo/algo.h"

struct denial_cache;

/* Identifies a cached answer; for a chunk (chunks.h), the answer to a request for one unit. */
struct cache_name {
	uint64_t key_hash;     /* keyed with the store's secret */
	uint64_t request_hash; /* of the limit with all its parameters, and of the cost */
};

/* A cached answer. All times are of one clock, which the caller chooses. */
struct denial_cache_answer {
	uint64_t valid_until_ns; /* until then the answer may be repeated */
	uint64_t passes_at_ns;   /* then the same request passes, unless another comes first */
	uint64_t full_at_ns;     /* then the key is as if never used */
	uint64_t remaining;
	uint64_t reason; /* enum weir_reason; it is WEIR_REASON_OK if the request would pass */
};

/** NULL if there is no memory. */
struct denial_cache *denial_cache_open(void);
/** NULL does nothing. */
void denial_cache_close(struct denial_cache *denials);

/** Whether denials of such a request may be repeated. */
bool denial_cache_applies(const struct algo_limit *limit, const struct algo_call *call);
struct cache_name denial_cache_name(const struct algo_limit *limit, const struct algo_call *call,
                                    uint64_t key);

/** Finds an answer that is valid at that time, and fills `out`. Whether it did. */
bool denial_cache_find(const struct denial_cache *denials, const struct algo_limit *limit,
                       const struct algo_call *call, const struct cache_name *name, uint64_t now_ns,
                       struct algo_decision *out);
/** The count of refunds and resets of the key; others may share it. */
uint32_t denial_cache_invalidations(const struct denial_cache *denials, uint64_t key);
/**
 * Stores an answer. `count` is denial_cache_invalidations from before the request; if it has
 * changed, nothing is stored.
 */
void denial_cache_store(struct denial_cache *denials, const struct cache_name *name, uint32_t count,
                        const struct denial_cache_answer *answer);
/**
 * Removes the answers of a key because a request was granted: the units that remain have changed.
 */
void denial_cache_remove(struct denial_cache *denials, uint64_t key);
/** Removes the answers of a key because of a refund or a reset, and raises the count. */
void denial_cache_invalidate(struct denial_cache *denials, uint64_t key);

#endif
