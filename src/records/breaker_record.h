/*
 * breaker_record.h: the state of the thing behind a key, in the cells of its record.
 *
 * The key's header counts nothing: it is there so that the record stays the key's, and it is HELD,
 * so never evicted, while the phase is one that must not be forgotten. The record has
 *
 *     the phase       tag 32 | slow 7 | bad 7 | good 7 | flying 7 | phase 3
 *                                                           since 60 | ended 3 | for ever 1
 *                     or open, instead of probes: spread 7 | doublings 7
 *     calm            name 32 | span 32                                       from 64
 *     the layout      tag 32 | judge_only 1 | max_concurrent 31               mixed until 60 | 0
 *     the sleep       tag 32 | doublings                                      opened at 60 | 0
 *
 * and then stripes, all alike, each of which has
 *
 *     parts           tag 32 | 1 | name 31              calls 21 | failures 21 | slow 21
 *     or blocks       tag 32 | 1 | name 31              number 27 | count 5 | outcomes 2 each
 *     flights         tag 32 | 0 | count 31                                   until 60 | mark 4
 *
 * The sum over stripes counts. A permit is counted in one stripe, which its id tells, from its
 * flight to its result. So threads change lines of their own, and only read those of others.
 *
 * The sleep is that of the last open phase, for the half-open one, which has no room for it: before
 * the phase turns from open, the sleep is written. It tells when it opened, so a call that stalls
 * and writes later changes nothing.
 *
 * While it is *calm*, from such a time and for such a span, the phase is closed, the window has its
 * minimum of calls and does not trip, and no part begins or ends, nor does a flight. So nothing
 * changes by time alone, nor by a call that ends well, and nobody need look at more than a few
 * cells.
 *
 * A flight counts permits that were given near each other, until the time of the last is over; with
 * max_concurrent each has its own, and there are no more. A part counts results in so much time, a
 * block has BREAKER_BLOCK of them in their order. Their names tell of which phase they are: what
 * another phase has counted is not seen, so nothing has to be cleaned.
 *
 * With judge_only, a request that would be denied passes by a permit that is in no record: it ends
 * at an odd nanosecond, and the others end at even ones. In a mixed record permits of before a
 * reload may end at any.
 *
 * A reload that changes max_concurrent gives the places of a record another meaning, but for the
 * window of the first stripe. So each cell says by itself what it is: flights and names differ by a
 * bit, and the mark of a flight says whether it is of one permit. The record is *mixed* then, until
 * all that was counted before is over: flights and parts may be anywhere in it. So they may be in
 * the record of a former table, whose records were narrower.
 *
 * The mark also tells other times of permits and other windows: such flights say nothing, and their
 * places are free. Marks of one reload in 8 are alike.
 *
 * Each change is a compare-and-swap of one cell. docs/design/health.md says in which order they
 * come, and what is left when a process dies between two of them.
 */
#ifndef RECORDS_HEALTH_H
#define RECORDS_HEALTH_H

#include "algo/outcomes/breaker_state.h"
#include "records/newest.h"
#include "records/record.h"

#define BREAKER_GROUPS_MAX (4 * ALGO_STRIPES * BREAKER_IN_FLIGHT_PARTS)

#define BREAKER_RETENTION_MIN_NS NS_PER_DAY /* that a window of calls is kept at least */

/* The phase and the flights that a look has found. */
struct breaker_snapshot {
	struct cell phase;          /* as it is kept, ... */
	struct breaker_state state; /* and what time has made of it */
	uint64_t in_flight;
	uint64_t own;      /* of these, given since the phase began, and in time as probes */
	uint64_t first_ns; /* how far ahead the first of their ends is; UINT64_MAX if there is none */
	uint64_t last_ns;
	bool overdue;     /* the time of some is over, and the look has not ended them */
	uint64_t lost_ns; /* half-open: when the time of lost probes was over, or 0 */
	bool mixed;
};

/* Flights by how far ahead their ends are: those of one permit each, and those of several. */
struct breaker_list {
	struct newest alone;
	struct breaker_group {
		struct cell *cell;
		uint64_t ahead_ns;
	} groups[BREAKER_GROUPS_MAX];
	size_t grouped;
};

/*
 * What a look does besides. It ends flights whose time is over, and adds up those that count in the
 * phase of the look: by the part in which their time was over, the part of now first. It lists all
 * others, unless `list` is NULL.
 */
struct breaker_expiry {
	uint64_t lost, lost_in[BREAKER_PARTS_MAX + 2];
	uint64_t first_ns, last_ns; /* when the time of the first and of the last was over */
	struct breaker_list *list;
};

/* The places in which a flight may be. */
struct breaker_permit {
	uint64_t start_ns, until_ns;
	unsigned stripe;
	unsigned id_stripe; /* that of its id, where there are stripes or were */
	bool has_no_id;     /* so it may be in any later stripe as well */
	unsigned index;     /* where it seems to be, which is looked at first; 0 if not known */
	bool alone;         /* it is looked for in cells of one permit only */
};

/* So many calls ended at at_ns, with the same result. */
struct breaker_results {
	struct breaker_result result;
	uint64_t count, at_ns;
	unsigned stripe; /* where they are counted */
};

enum breaker_acquired { BREAKER_ACQUIRED, BREAKER_FULL, BREAKER_AGAIN };

/** When a permit ends that is given at a time. */
static inline uint64_t breaker_until_ns(const struct breaker_params *params, uint64_t start_ns)
{
	uint64_t until_ns = start_ns + params->timeout_ns;

	return until_ns + (until_ns & params->judge_only);
}

/** The same of a permit in no record, and whether a permit is one, in a record that is not mixed.
 */
static inline uint64_t breaker_unrecorded_until_ns(const struct breaker_params *params,
                                                   uint64_t start_ns)
{
	return (start_ns + params->timeout_ns) | 1;
}

static inline bool breaker_is_unrecorded(const struct breaker_params *params, uint64_t until_ns)
{
	return until_ns & params->judge_only;
}

static inline struct breaker_permit breaker_permit_of(const struct breaker_params *params,
                                                      uint64_t until_ns, uint64_t id)
{
	return (struct breaker_permit){
	    .start_ns = until_ns - params->timeout_ns,
	    .until_ns = until_ns,
	    .stripe = breaker_stripes(params) > 1 ? (unsigned)(id >> ALGO_STRIPE_SHIFT) : 0,
	    .id_stripe = (unsigned)(id >> ALGO_STRIPE_SHIFT),
	    .has_no_id = id == 0,
	};
}

/** Whether it is calm; `look` then has the phase. */
bool breaker_record_is_quiescent(const struct algo_limit *limit, uint64_t now_ns,
                                 const struct record *record, struct breaker_snapshot *snapshot);
/** Makes it calm, after a look that found nothing overdue, and a window that does not trip. */
void breaker_record_set_quiescent(const struct algo_limit *limit, const struct record_state *at,
                                  const struct breaker_snapshot *snapshot, uint64_t now_ns);

/** A record without cells is that of a key which has none yet. `sweep` may be NULL. */
void breaker_record_read(const struct algo_limit *limit, uint64_t now_ns,
                         const struct record *record, struct breaker_snapshot *snapshot,
                         struct breaker_expiry *expiry);

/** Adds the flights of a record in a former table to a snapshot. */
void breaker_record_add_former(const struct algo_limit *limit, uint64_t now_ns,
                               const struct record *record, struct breaker_snapshot *snapshot,
                               struct breaker_expiry *expiry);

/** Visits how far ahead the flights of one permit each end. */
void breaker_record_visit(const struct algo_limit *limit, uint64_t now_ns,
                          const struct record_state *at, newest_visit *visit,
                          struct newest *newest);
/**
 * Gives back those of a record that are among the newest; returns how many. *last_ns: at least how
 * far ahead the last end of those is that stay.
 */
uint64_t breaker_record_release_newest(const struct algo_limit *limit, uint64_t now_ns,
                                       const struct record *record, struct newest *newest,
                                       uint64_t *last_ns);
/** Of several permits that are counted together, up to `n`. Returns how many were given back. */
uint64_t breaker_group_release(const struct algo_limit *limit, uint32_t tag,
                               const struct breaker_group *group, uint64_t n);

/** Makes the record one of this limit's max_concurrent: mixed, if it was one of another. */
void breaker_record_adopt(const struct algo_limit *limit, const struct record_state *at,
                          uint64_t now_ns);

/** The phase alone. */
void breaker_record_phase(const struct algo_limit *limit, uint64_t now_ns,
                          const struct record *record, struct breaker_snapshot *snapshot);

/** Swaps the phase that the look has found, also in the snapshot. Returns false if it has changed.
 */
bool breaker_record_change_phase(const struct record_state *at, struct breaker_snapshot *snapshot,
                                 const struct breaker_state *after);

/** Another permit in flight, in the phase of the snapshot. */
enum breaker_acquired breaker_record_acquire(const struct algo_limit *limit,
                                             const struct record_state *at,
                                             const struct breaker_snapshot *snapshot,
                                             struct breaker_permit permit, uint64_t now_ns);
/** Whether it seems to be in flight; its place is noted then. */
bool breaker_record_has_permit(const struct algo_limit *limit, const struct record_state *at,
                               struct breaker_permit *permit);
/** It is no more. Returns false if it was not. */
bool breaker_record_release(const struct algo_limit *limit, const struct record_state *at,
                            struct breaker_permit permit);
/** Ends all, wherever they are. */
void breaker_record_expire_all(const struct algo_limit *limit, const struct record_state *at);

/** Counts results in the phase of the snapshot. */
void breaker_record_count(const struct algo_limit *limit, const struct record_state *at,
                          const struct breaker_snapshot *snapshot,
                          const struct breaker_results *ends, uint64_t now_ns);

/** Counts in the first stripe what a cell of another has counted for the phase of the snapshot. */
void breaker_record_move_counts(const struct algo_limit *limit, const struct record_state *at,
                                const struct breaker_snapshot *snapshot, struct cell part,
                                uint64_t now_ns);

/** The window of the look's phase. Returns how long something in it counts still. */
uint64_t breaker_record_tally(const struct algo_limit *limit, const struct record *record,
                              const struct breaker_snapshot *snapshot, uint64_t now_ns,
                              struct breaker_tally *tally);
/** The same of another record, added to the window so far. */
uint64_t breaker_record_add_tally(const struct algo_limit *limit, const struct record *record,
                                  const struct breaker_snapshot *snapshot, uint64_t now_ns,
                                  struct breaker_tally *tally);

/** The same where something counts in the part of now. */
static inline uint64_t breaker_record_ahead_ns(const struct breaker_params *params, uint64_t now_ns)
{
	if (params->part_ns == 0)
		return BREAKER_RETENTION_MIN_NS;
	return breaker_part_end_ns(params, breaker_part(params, now_ns)) - now_ns;
}

/** Whether the header keeps the record long enough, and is HELD if it has to be. */
bool breaker_record_header_fits(const struct algo_limit *limit, struct cell header, uint32_t tag,
                                const struct breaker_state *state, uint64_t now_ns);
/** A header that does. */
struct cell breaker_record_header(const struct algo_limit *limit, uint32_t tag,
                                  const struct breaker_state *state, uint64_t now_ns);

/* Allowed, closed as before, and what remains yet to be said. */
static inline void breaker_quiescent_outcome(struct algo_decision *out)
{
	algo_decision_allow(out);
	out->phase = BREAKER_CLOSED;
	out->phase_change_count = 0;
}

/**
 * An acquire while the record is calm: when its permit ends, with all of `out` set. 0: it is not
 * calm, or somebody was faster; nothing has changed.
 */
uint64_t breaker_record_try_acquire(const struct algo_limit *limit, const struct record_state *at,
                                    uint64_t id, uint64_t now_ns, struct algo_decision *out);
/** A report that is good, likewise. Returns false if nothing has changed. */
bool breaker_record_try_report(const struct algo_limit *limit, const struct record_state *at,
                               const struct breaker_report *report, uint64_t now_ns);

#endif
