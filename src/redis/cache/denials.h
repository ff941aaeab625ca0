/*
 * denials.h: the denials of a store that need not be asked for again. Shared by clients.
 *
 * A table of fixed size, in sets of four. The key, the parameters and the cost of the question
 * find a denial, which is never kept longer than it holds. A full set drops the denial that ends
 * soonest.
 *
 * A refund or a reset of a key forgets all its denials, also those still on their way. It raises a
 * count that the key shares with others; a denial carries the count from before its question.
 *
 * Reading takes no lock; writers of one set take turns, for a few stores each.
 */
#ifndef REDIS_DENIALS_H
#define REDIS_DENIALS_H

#include "algo/algo.h"

struct denied;

/* A question that Redis answered. */
struct cache_name {
	uint64_t key;   /* a keyed hash */
	uint64_t which; /* a hash of the rest */
};

/* The answer. Times are of one clock, which the caller knows. */
struct denied_answer {
	uint64_t known_ns; /* until then it need not be asked again */
	uint64_t until_ns; /* the same request passes then, if nothing else comes */
	uint64_t reset_ns; /* the key is as new then */
	uint64_t remaining;
	uint64_t reason; /* enum weir_reason */
};

/** NULL: no memory. */
struct denied *denied_open(void);
/** NULL does nothing. */
void denied_close(struct denied *denied);

/** Whether a request is of a kind whose denials can be repeated without asking. */
bool denied_applies(const struct algo_limit *limit, const struct algo_call *call);
/** The question of a call for which denied_applies holds. `key` is its keyed hash. */
struct cache_name denied_question(const struct algo_limit *limit, const struct algo_call *call,
                                  uint64_t key);

/** Whether it is known to be denied at that time; fills `out`. */
bool denied_find(const struct denied *denied, const struct algo_limit *limit,
                 const struct algo_call *call, const struct cache_name *question, uint64_t now_ns,
                 struct algo_outcome *out);
/** How often the key was made to forget so far. */
uint32_t denied_count(const struct denied *denied, uint64_t key);
/** Keeps a denial; `count` is denied_count from before it was asked for. */
void denied_note(struct denied *denied, const struct cache_name *question, uint32_t count,
                 const struct denied_answer *answer);
/** A request of the key was granted: what is known of others holds, but in other words. */
void denied_taken(struct denied *denied, uint64_t key);
/** A request of the key is given back. */
void denied_forget(struct denied *denied, uint64_t key);

#endif
