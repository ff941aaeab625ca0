/*
 * ask.h: checks the options of public calls, struct weir_ask and struct weir_report, in the same
 * way for limiters, tables and engines.
 */
#ifndef API_ASK_H
#define API_ASK_H

#include "algo/algo.h"

/** Returns the time that the caller passed, or WEIR_NOW if it passed none. */
static inline uint64_t ask_time(uint64_t now_ns)
{
	return now_ns != 0 ? now_ns : WEIR_NOW;
}

/**
 * Translates `ask` into `call`, with the time that is left until the deadline. `unusable_permit` is
 * ask->permit or ask->permits, whichever the kind of handle can't fill: it must be NULL. Returns 0,
 * EINVAL or ERANGE as weir_ask.
 */
int ask_to_call(const struct weir_ask *ask, const void *unusable_permit, struct algo_call *call);

/** Returns 0 or EINVAL as weir_report. */
static inline int ask_check_report(const struct weir_report *report)
{
	return (unsigned)report->outcome < WEIR_OUTCOME_COUNT && report->reserved[0] == 0 ? WEIR_OK
	                                                                                  : WEIR_EINVAL;
}

#endif
