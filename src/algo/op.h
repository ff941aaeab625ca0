/*
 * op.h: lists the operations on the state of a key, with their traits.
 *
 * All limits know the first four. The scripts that run in Redis know the operations up to
 * REFUND_LAST by their numbers, so these must not change.
 */
#ifndef ALGO_OP_H
#define ALGO_OP_H

#include <stdbool.h>

/* The traits of an operation. */
enum {
	ALGO_REQUESTS = 1,        /* units, which must fit the quota: the decision may be a denial */
	ALGO_CONSUMES = 2,        /* these units, unless it is denied */
	ALGO_RELEASES = 4,        /* units or a permit */
	ALGO_REPORTS = 8,         /* that the request of a permit has ended */
	ALGO_COUNTS_OUTCOME = 16, /* into the statistics by which the limit judges */
	ALGO_REPLACES = 32,       /* the oldest uses of a log if all together exceed its quota */
	ALGO_EXCHANGES = 64,      /* messages of servers at a remote store */
};

/*
 * Logs (ALGO_RECORD_LOG): REPLACE acquires, but is never denied: its units count in the place of
 * the oldest uses. A server whose clock lags counts these until its clock reaches the time of the
 * REPLACE. REFUND_REPLACED refunds after it has dropped the oldest uses in the same way.
 *
 * Concurrency: REFUND_LAST is the last refund of a permit. If the permit has more entries of the
 * key that end at `until_ns`, they stay in use until then, but no longer belong to the permit.
 *
 * Limits that judge by outcomes (algorithm->judges): REPORT ends a permit, and counts the outcome
 * of its request. If one server gets the report of another server's permit, it counts the outcome
 * (COUNT), and the other server ends the permit (SETTLE).
 *
 * Breakers: by FORCE an operator forces a key into a phase, or ends that. A key that is not forced
 * applies the decisions of its quorum group (GROUP_...).
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
	OP(GROUP_OPEN, 0) /* since `until_ns`, after `cost` failed probes in a row; `draw` gives all   \
	                     servers the same spread of the sleep */                                   \
	OP(GROUP_CLOSED, 0)                                                                            \
	OP(GROUP_PROBES, 0) /* half-open, with `cost` probes more */                                   \
	OP(GROUP_LAPSE, 0)  /* returns the unused probes to the group: algo_notification.freed */      \
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

/* Whether an operation has a trait. The traits of an acquire, the most frequent, need no load. */
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

/** The variant of an operation on a log that replaces the oldest uses. */
static inline enum algo_op algo_op_replacing(enum algo_op op)
{
	return op == ALGO_ACQUIRE ? ALGO_REPLACE : op == ALGO_REFUND ? ALGO_REFUND_REPLACED : op;
}

#endif
