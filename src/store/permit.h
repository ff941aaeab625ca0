/*
 * permit.h: records outstanding permits, so that each can be redeemed once: released or refunded.
 *
 * An outstanding permit has a cell in the table of one-word states, like a key. If several
 * threads redeem it, the one whose swap empties the cell gives back what the permit has taken. If
 * the cell was evicted, or the process dies right after the swap, nothing is given back, which is
 * safe: no limit grants too much. Permits of concurrency limits have an entry in the limit's own
 * table, and need no cell.
 *
 * A permit may be outstanding after its expiry. The caller must check whether its use still counts.
 */
#ifndef STORE_PERMIT_H
#define STORE_PERMIT_H

#include "store/store.h"

struct permit {
	uint64_t id;   /* 0 for none */
	uint64_t keys; /* the xor of the hashes of all its keys, so it fits no other request's */
};

/**
 * Returns a new id, not 0: random bits that nobody can guess, and from ALGO_STRIPE_SHIFT on this
 * thread's stripe. The child of a fork draws other ids than its parent.
 */
uint64_t permit_random_id(void);
/** The same at less cost, by a generator whose ids can be guessed, for permits within one process.
 */
uint64_t permit_cheap_id(void);

/** Records a permit until `until_ns`, when nothing of its use counts any more. */
void permit_record(struct store *store, struct permit permit, uint64_t until_ns, uint64_t now_ns);

bool permit_is_outstanding(const struct store *store, struct permit permit, uint64_t now_ns);

/** Removes the record of a permit. Returns whether there was one, which only one caller gets. */
bool permit_redeem(struct store *store, struct permit permit, uint64_t now_ns);

#endif
