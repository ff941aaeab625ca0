/*
 * permit.h: which permits may still be given back, so that each is given back once.
 *
 * A permit that is held has a cell in the table of one-word states, like a key; who
 * swaps it for an empty one gives the permit back, and nobody else does. Where that cell
 * had to make room, or a process dies right behind the swap, nothing is given back:
 * the safe side. Permits that hold a place of their own need no cell.
 *
 * A permit may be held after its time. The caller knows whether anything that it is of still
 * counts.
 */
#ifndef STORE_PERMIT_H
#define STORE_PERMIT_H

#include "store/store.h"

struct permit {
	uint64_t id;   /* 0 for none */
	uint64_t keys; /* the hashes of all keys that it was taken from, xored: it is no other's */
};

/**
 * A new id, not 0: bits that nobody can guess, and above ALGO_STRIPE_SHIFT this thread's stripe.
 * Children of a fork draw others.
 */
uint64_t permit_random_id(void);
/** The same at less cost: bits by chance, for callers that have no reason to guess. */
uint64_t permit_cheap_id(void);

/** Until `until_ns`, when none of what it was taken from has anything left to give back. */
void permit_record(struct store *store, struct permit permit, uint64_t until_ns, uint64_t now_ns);

bool permit_is_outstanding(const struct store *store, struct permit permit, uint64_t now_ns);

/** Whether it was held, which it is not any more. */
bool permit_redeem(struct store *store, struct permit permit, uint64_t now_ns);

#endif
