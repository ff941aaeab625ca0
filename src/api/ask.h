/*
 * ask.h: checks struct weir_ask and struct weir_report and turns them into calls, in one way for
 * limiters, tables and rules.
 */
#ifndef API_ASK_H
#define API_ASK_H

#include "algo/algo.h"

/** The time that the caller gave, or WEIR_NOW. */
static inline uint64_t ask_time(uint64_t now_ns)
{
	return now_ns != 0 ? now_ns : WEIR_NOW;
}

/**
 * Makes the call, with the time that is left until the deadline. `other` is the permit that only
 * another kind of handle fills, and must be NULL. Returns 0, EINVAL or ERANGE as weir_ask.
 */
int ask_read(const struct weir_ask *ask, const void *other, struct algo_call *call);

/** Returns 0 or EINVAL as weir_report. */
static inline int ask_check_report(const struct weir_report *report)
{
	return (unsigned)report->outcome < WEIR_OUTCOME_COUNT && report->reserved[0] == 0 ? WEIR_OK
	                                                                                  : WEIR_EINVAL;
}

#endif
