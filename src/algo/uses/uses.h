/*
 * uses.h: the meaning of a state of more than one word, and the step on it.
 *
 * A state is a list of uses: so many units, until a time. It does not say how they are kept:
 * src/records keeps them in cells, another store may keep them as it likes. For equal states the
 * step gives the decision that src/records gives, to the nanosecond.
 */
#ifndef ALGO_USES_USES_H
#define ALGO_USES_USES_H

#include <stddef.h>

#include "algo/algo.h"

struct uses_entry {
	uint64_t units;    /* at least 1 */
	uint64_t until_ns; /* from then on they do not count; weighted slots fade before */
	uint64_t id;       /* slots, log, day: the time by which a refund names them (of a day's window
	                      uses_day_id); places: of the permit, as leases_word keeps it */
};

/*
 * In the order of `until_ns`, then of `id`; equal places are one entry. A state at its `until_ns`, or without
 * uses and never used, {0} but for the list, equals none.
 */
struct uses {
	struct uses_entry *uses; /* the caller's */
	size_t count;
	uint64_t until_ns; /* slots, log: the end of the newest use, even if it was given back since;
	                      day: of that; places: 0 */
	uint64_t newest_id; /* log: of the newest use, even if it was given back; all others: 0 */
};

/** Adds a use in its place, or its units to an equal one. */
void uses_add(struct uses *uses, struct uses_entry use);

/**
 * The name of a day's window among its uses, which tells it from the day: its end, or a nanosecond
 * more if both end together.
 */
static inline uint64_t uses_day_id(uint64_t window_ns, uint64_t day_ns)
{
	return window_ns + (window_ns == day_ns);
}

/** And back. */
static inline uint64_t uses_day_window(uint64_t id, uint64_t day_ns)
{
	return id - (id == day_ns + 1);
}

/**
 * One step, as algo_step. `uses->uses` has room for limit->width uses and one more. Returns the
 * name by which a refund can ask for what was acquired, or 0 if nothing was.
 *
 * `time` is what algo_time_at says. The state may be of another time, also of a later one.
 * A peek leaves a state that equals the one before, unless a clock was set back since.
 */
uint64_t uses_step(const struct algo_limit *limit, const struct algo_call *call,
                   const struct algo_time *time, struct uses *uses, struct algo_decision *out);

/** The same for days; `out` is open. */
uint64_t uses_day_step(const struct algo_limit *limit, const struct algo_call *call,
                       const struct algo_time *time, struct uses *uses, struct algo_decision *out);

#endif
