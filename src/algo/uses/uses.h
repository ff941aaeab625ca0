/*
 * uses.h: decides requests on a list of uses. A use is a number of units that count until a time.
 *
 * States of more than one word, such as a log or leases, are such lists. src/records stores them in
 * cells, and decides on the cells. A remote store has another form of them; they are read into the
 * list here, and the step here decides. For equal states both decide equally, to the nanosecond.
 */
#ifndef ALGO_USES_USES_H
#define ALGO_USES_USES_H

#include <stddef.h>

#include "algo/algo.h"

struct uses_entry {
	uint64_t units;    /* at least 1 */
	uint64_t until_ns; /* the units no longer count from then on; weighted slots fade before */
	uint64_t id;       /* slots, log, day: the time by which a refund names the use (of a day's
	                      window: uses_day_id); concurrency: leases_word of the permit */
};

/*
 * A list in the order of `until_ns`, then of `id`; uses that are equal in both are one entry. A
 * state equals none at its `until_ns`, or if all its fields but the list are 0.
 */
struct uses {
	struct uses_entry *entries; /* owned by the caller */
	size_t count;
	uint64_t until_ns;  /* slots, log: the end of the newest use, even if it was refunded since;
	                       day: the end of the day; concurrency: 0 */
	uint64_t newest_id; /* log: id of the newest use, even if it was refunded since; others: 0 */
};

/** Adds a use in the order of the list, or adds its units to an equal use. */
void uses_add(struct uses *uses, struct uses_entry use);

/**
 * The id of a day's window, which differs from that of the day: the end of the window, or a
 * nanosecond more if both end together.
 */
static inline uint64_t uses_day_id(uint64_t window_ns, uint64_t day_ns)
{
	return window_ns + (window_ns == day_ns);
}

/** The end of the window with that id. */
static inline uint64_t uses_day_window(uint64_t id, uint64_t day_ns)
{
	return id - (id == day_ns + 1);
}

/**
 * Performs one operation, as algo_step does. `uses->entries` has space for limit->width uses and
 * one more. Returns the name by which a refund can release the units that were consumed, or 0 if
 * none were.
 *
 * `time` comes from algo_time_at. The state may have been written at a later time, by another
 * clock. After a peek the state equals the one before, unless a clock was set back in between.
 */
uint64_t uses_step(const struct algo_limit *limit, const struct algo_call *call,
                   const struct algo_time *time, struct uses *uses, struct algo_decision *out);

/** The same for days. The caller has called algo_decision_allow. */
uint64_t uses_day_step(const struct algo_limit *limit, const struct algo_call *call,
                       const struct algo_time *time, struct uses *uses, struct algo_decision *out);

#endif
