/*
 * op.h: the operations on the state of a key, and what they have in common: one row for each.
 *
 * All limits know the first four. The scripts of Redis know those up to REFUND_LAST by their number.
 */
#ifndef ALGO_OP_H
#define ALGO_OP_H

#include <stdbool.h>

/* What an operation does. */
enum {
	ALGO_REQUESTS = 1, /* for units: they must fit the quota, and the answer may be a denial */
	ALGO_CONSUMES = 2, /* these units, unless it is denied */
	ALGO_RELEASES = 4, /* back units or a permit */
	ALGO_REPORTS = 8,  /* that the request of a permit has ended */
	ALGO_COUNTS_OUTCOME = 16, /* the outcome of that request */
	ALGO_REPLACES = 32,       /* the oldest uses of a log, where newer ones exceed its quota */
	ALGO_EXCHANGES = 64,      /* messages of servers at a remote store: no algorithm knows it */
};

/*
 * Logs: REPLACE is never refused. What it takes counts in the place of the oldest uses. For a clock
 * that lags these count on until the time of that. REFUND_REPLACED forgets them first.
 *
 * Places: REFUND_LAST is the last refund of a permit. If the permit has more places of the key that
 * end at `until_ns`, they stay held, and lose its name.
 *
 * Limits that judge by outcomes (algorithm->judges): REPORT ends a permit, and counts how its
 * request ended. If a server reports another server's permit, it just counts, and the other
 * server settles: it ends the permit.
 *
 * Limits with phases: an operator forces a key into a phase, or out of it. Unless it is forced, a
 * key follows what its quorum group has decided.
 */
#define ALGO_OPS(OP)                                                                               \
	OP(ACQUIRE, ALGO_REQUESTS | ALGO_CONSUMES)                                                     \
	OP(PEEK, ALGO_REQUESTS)                                                                        \
	OP(REFUND, ALGO_RELEASES)                                                                      \
	OP(RESET, 0)                                                                                   \
	OP(REPLACE, ALGO_REQUESTS | ALGO_CONSUMES | ALGO_REPLACES)                                     \
	OP(REFUND_REPLACED, ALGO_RELEASES | ALGO_REPLACES)                                             \
	OP(REFUND_LAST, ALGO_RELEASES)                                                                 \
	OP(REPORT, ALGO_RELEASES | ALGO_REPORTS | ALGO_COUNTS_OUTCOME)                                 \
	OP(COUNT, ALGO_RELEASES | ALGO_REPORTS | ALGO_COUNTS_OUTCOME)                                  \
	OP(SETTLE, ALGO_RELEASES | ALGO_REPORTS)                                                       \
	OP(FORCE, 0)                                                                                   \
	OP(GROUP_OPEN, 0) /* since `until_ns`, after `cost` failed probes in a row; all servers take   \
	                     the same spread of the sleep from `draw` */                               \
	OP(GROUP_CLOSED, 0)                                                                            \
	OP(GROUP_PROBES, 0) /* half-open, with `cost` probes more */                                   \
	OP(GROUP_LAPSE, 0)  /* takes back probes that no request has used: algo_notification.freed */  \
	OP(EXCHANGE_VOTES, ALGO_EXCHANGES)                                                             \
	OP(EXCHANGE_REPORTS, ALGO_EXCHANGES)

enum algo_op {
#define ALGO_OP(name, traits) ALGO_##name,
	ALGO_OPS(ALGO_OP)
#undef ALGO_OP
};

static const unsigned char algo_op_traits[] = {
#define ALGO_OP(name, traits) [ALGO_##name] = (traits),
    ALGO_OPS(ALGO_OP)
#undef ALGO_OP
};

/* The row of the most frequent operation is known without a load. */
static inline bool algo_op_has(enum algo_op op, unsigned trait)
{
	if (__builtin_expect(op == ALGO_ACQUIRE, 1))
		return algo_op_traits[ALGO_ACQUIRE] & trait;
	return algo_op_traits[op] & trait;
}

static inline bool algo_op_requests(enum algo_op op)
{
	return algo_op_has(op, ALGO_REQUESTS);
}

static inline bool algo_op_consumes(enum algo_op op)
{
	return algo_op_has(op, ALGO_CONSUMES);
}

static inline bool algo_op_releases(enum algo_op op)
{
	return algo_op_has(op, ALGO_RELEASES);
}

static inline bool algo_op_reports(enum algo_op op)
{
	return algo_op_has(op, ALGO_REPORTS);
}

static inline bool algo_op_counts_outcome(enum algo_op op)
{
	return algo_op_has(op, ALGO_COUNTS_OUTCOME);
}

static inline bool algo_op_replaces(enum algo_op op)
{
	return algo_op_has(op, ALGO_REPLACES);
}

static inline bool algo_op_exchanges(enum algo_op op)
{
	return algo_op_has(op, ALGO_EXCHANGES);
}

/** The operation on a log, if it may replace uses. */
static inline enum algo_op algo_op_replacing(enum algo_op op)
{
	return op == ALGO_ACQUIRE ? ALGO_REPLACE : op == ALGO_REFUND ? ALGO_REFUND_REPLACED : op;
}

#endif
