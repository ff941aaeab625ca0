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
	ALGO_ASKS = 1,     /* for units: they must fit the quota, and the answer may be a denial */
	ALGO_TAKES = 2,    /* these units, unless it is denied */
	ALGO_GIVES = 4,    /* back units or a permit */
	ALGO_REPORTS = 8,  /* that the request of a permit has ended */
	ALGO_COUNTS = 16,  /* the outcome of that request */
	ALGO_REPLACES = 32, /* the oldest uses of a log, where newer ones exceed its quota */
	ALGO_EXCHANGES = 64, /* messages of servers at a remote store: no algorithm knows it */
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
	OP(ACQUIRE, ALGO_ASKS | ALGO_TAKES)                                                            \
	OP(PEEK, ALGO_ASKS)                                                                            \
	OP(REFUND, ALGO_GIVES)                                                                         \
	OP(RESET, 0)                                                                                   \
	OP(REPLACE, ALGO_ASKS | ALGO_TAKES | ALGO_REPLACES)                                            \
	OP(REFUND_REPLACED, ALGO_GIVES | ALGO_REPLACES)                                                \
	OP(REFUND_LAST, ALGO_GIVES)                                                                    \
	OP(REPORT, ALGO_GIVES | ALGO_REPORTS | ALGO_COUNTS)                                            \
	OP(COUNT, ALGO_GIVES | ALGO_REPORTS | ALGO_COUNTS)                                             \
	OP(SETTLE, ALGO_GIVES | ALGO_REPORTS)                                                          \
	OP(FORCE, 0)                                                                                   \
	OP(GROUP_OPEN, 0)   /* since `until_ns`, after `cost` failed probes in a row; all servers take \
	                       the same spread of the sleep from `draw` */                             \
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

static inline bool algo_op_asks(enum algo_op op)
{
	return algo_op_has(op, ALGO_ASKS);
}

static inline bool algo_op_takes(enum algo_op op)
{
	return algo_op_has(op, ALGO_TAKES);
}

static inline bool algo_op_gives(enum algo_op op)
{
	return algo_op_has(op, ALGO_GIVES);
}

static inline bool algo_op_reports(enum algo_op op)
{
	return algo_op_has(op, ALGO_REPORTS);
}

static inline bool algo_op_counts(enum algo_op op)
{
	return algo_op_has(op, ALGO_COUNTS);
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
