/*
 * health.h: the health of the thing behind a key, in the cells of its row.
 *
 * The key's head counts nothing: it is there so that the row stays the key's, and it is HELD, so
 * never evicted, while the phase is one that must not be forgotten. The row has
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
 * block has HEALTH_BLOCK of them in their order. Their names tell of which phase they are: what
 * another phase has counted is not seen, so nothing has to be cleaned.
 *
 * With judge_only, a request that would be denied passes by a permit that is in no row: it ends at
 * an odd nanosecond, and the others end at even ones. In a mixed row permits of before a reload may
 * end at any.
 *
 * A reload that changes max_concurrent gives the places of a row another meaning, but for the
 * window of the first stripe. So each cell says by itself what it is: flights and names differ by a
 * bit, and the mark of a flight says whether it is of one permit. The row is *mixed* then, until
 * all that was counted before is over: flights and parts may be anywhere in it. So they may be in
 * the row of a former table, whose rows were narrower.
 *
 * The mark also tells other times of permits and other windows: such flights say nothing, and their
 * places are free. Marks of one reload in 8 are alike.
 *
 * Each change is a compare-and-swap of one cell. docs/design/health.md says in which order they
 * come, and what is left when a process dies between two of them.
 */
#ifndef ROWS_HEALTH_H
#define ROWS_HEALTH_H

#include "algo/outcomes/health.h"
#include "rows/newest.h"
#include "rows/rows.h"

#define HEALTH_GROUPS_MAX (4 * ALGO_STRIPES * HEALTH_FLIGHT_PARTS)

#define HEALTH_LEAST_NS NS_PER_DAY /* that a window of calls is kept at least */

/* The phase and the flights that a look has found. */
struct health_look {
	struct cell phase;          /* as it is kept, ... */
	struct health_state health; /* and what time has made of it */
	uint64_t in_flight;
	uint64_t own;      /* of these, given since the phase began, and in time as probes */
	uint64_t first_ns; /* how far ahead the first of their ends is; UINT64_MAX if there is none */
	uint64_t last_ns;
	bool overdue; /* the time of some is over, and the look has not ended them */
	uint64_t lost_ns; /* half-open: when the time of lost probes was over, or 0 */
	bool mixed;
};

/* Flights by how far ahead their ends are: those of one permit each, and those of several. */
struct health_list {
	struct newest alone;
	struct health_group {
		struct cell *cell;
		uint64_t ahead_ns;
	} groups[HEALTH_GROUPS_MAX];
	size_t grouped;
};

/*
 * What a look does besides. It ends flights whose time is over, and adds up those that count in the
 * phase of the look: by the part in which their time was over, the part of now first. It lists all
 * others, unless `list` is NULL.
 */
struct health_sweep {
	uint64_t lost, lost_in[HEALTH_PARTS_MAX + 2];
	uint64_t first_ns, last_ns; /* when the time of the first and of the last was over */
	struct health_list *list;
};

/* The places in which a flight may be. */
struct health_permit {
	uint64_t start_ns, until_ns;
	unsigned stripe;
	unsigned id_stripe; /* that of its id, where there are stripes or were */
	bool has_no_id;     /* so it may be in any later stripe as well */
	unsigned place;     /* where it seems to be, which is looked at first; 0 if not known */
	bool alone;         /* it is looked for in cells of one permit only */
};

/* So many calls ended at at_ns, with the same result. */
struct health_ends {
	struct health_result result;
	uint64_t count, at_ns;
	unsigned stripe; /* where they are counted */
};

enum health_taken { HEALTH_TAKEN, HEALTH_FULL, HEALTH_AGAIN };

/** When a permit ends that is given at a time. */
static inline uint64_t health_until_ns(const struct health_params *params, uint64_t start_ns)
{
	uint64_t until_ns = start_ns + params->timeout_ns;

	return until_ns + (until_ns & params->judge_only);
}

/** The same of a permit in no row, and whether a permit is one, in a row that is not mixed. */
static inline uint64_t health_bare_until_ns(const struct health_params *params, uint64_t start_ns)
{
	return (start_ns + params->timeout_ns) | 1;
}

static inline bool health_is_bare(const struct health_params *params, uint64_t until_ns)
{
	return until_ns & params->judge_only;
}

static inline struct health_permit health_permit_of(const struct health_params *params,
                                                    uint64_t until_ns, uint64_t id)
{
	return (struct health_permit){
	    .start_ns = until_ns - params->timeout_ns,
	    .until_ns = until_ns,
	    .stripe = health_stripes(params) > 1 ? (unsigned)(id >> ALGO_STRIPE_SHIFT) : 0,
	    .id_stripe = (unsigned)(id >> ALGO_STRIPE_SHIFT),
	    .has_no_id = id == 0,
	};
}

/** Whether it is calm; `look` then has the phase. */
bool health_row_is_calm(const struct algo_limit *limit, uint64_t now_ns, const struct row *row,
                        struct health_look *look);
/** Makes it calm, after a look that found nothing overdue, and a window that does not trip. */
void health_row_calm(const struct algo_limit *limit, const struct row_state *at,
                     const struct health_look *look, uint64_t now_ns);

/** A row without cells is that of a key which has none yet. `sweep` may be NULL. */
void health_row_look(const struct algo_limit *limit, uint64_t now_ns, const struct row *row,
                     struct health_look *look, struct health_sweep *sweep);

/** Adds the flights of a row in a former table to a look. */
void health_row_look_former(const struct algo_limit *limit, uint64_t now_ns, const struct row *row,
                            struct health_look *look, struct health_sweep *sweep);

/** Visits how far ahead the flights of one permit each end. */
void health_row_visit(const struct algo_limit *limit, uint64_t now_ns, const struct row_state *at,
                      newest_visit *visit, struct newest *newest);
/**
 * Gives back those of a row that are among the newest; returns how many. *last_ns: at least how far
 * ahead the last end of those is that stay.
 */
uint64_t health_row_give_newest(const struct algo_limit *limit, uint64_t now_ns,
                                const struct row *row, struct newest *newest, uint64_t *last_ns);
/** Of several permits that are counted together, up to `n`. Returns how many were given back. */
uint64_t health_group_give(const struct algo_limit *limit, uint32_t tag,
                           const struct health_group *group, uint64_t n);

/** Makes the row one of this limit's max_concurrent: mixed, if it was one of another. */
void health_row_adopt(const struct algo_limit *limit, const struct row_state *at, uint64_t now_ns);

/** The phase alone. */
void health_row_phase(const struct algo_limit *limit, uint64_t now_ns, const struct row *row,
                      struct health_look *look);

/** Swaps the phase that the look has found, also in the look. Returns false if it has changed. */
bool health_row_turn(const struct row_state *at, struct health_look *look,
                     const struct health_state *after);

/** Another permit in flight, in the phase of the look. */
enum health_taken health_row_take(const struct algo_limit *limit, const struct row_state *at,
                                  const struct health_look *look, struct health_permit permit,
                                  uint64_t now_ns);
/** Whether it seems to be in flight; its place is noted then. */
bool health_row_has(const struct algo_limit *limit, const struct row_state *at,
                    struct health_permit *permit);
/** It is no more. Returns false if it was not. */
bool health_row_give(const struct algo_limit *limit, const struct row_state *at,
                     struct health_permit permit);
/** Ends all, wherever they are. */
void health_row_end_all(const struct algo_limit *limit, const struct row_state *at);

/** Counts results in the phase of the look. */
void health_row_count(const struct algo_limit *limit, const struct row_state *at,
                      const struct health_look *look, const struct health_ends *ends,
                      uint64_t now_ns);

/** Counts in the first stripe what a cell of another has counted for the phase of the look. */
void health_row_count_again(const struct algo_limit *limit, const struct row_state *at,
                            const struct health_look *look, struct cell part, uint64_t now_ns);

/** The window of the look's phase. Returns how long something in it counts still. */
uint64_t health_row_tally(const struct algo_limit *limit, const struct row *row,
                          const struct health_look *look, uint64_t now_ns,
                          struct health_tally *tally);
/** The same of another row, added to the window so far. */
uint64_t health_row_add_tally(const struct algo_limit *limit, const struct row *row,
                              const struct health_look *look, uint64_t now_ns,
                              struct health_tally *tally);

/** The same where something counts in the part of now. */
static inline uint64_t health_row_ahead_ns(const struct health_params *params, uint64_t now_ns)
{
	if (params->part_ns == 0)
		return HEALTH_LEAST_NS;
	return health_part_end_ns(params, health_part(params, now_ns)) - now_ns;
}

/** Whether the head keeps the row long enough, and is HELD if it has to be. */
bool health_row_fits(const struct algo_limit *limit, struct cell head, uint32_t tag,
                     const struct health_state *health, uint64_t now_ns);
/** A head that does. */
struct cell health_row_head(const struct algo_limit *limit, uint32_t tag,
                            const struct health_state *health, uint64_t now_ns);

/* Allowed, closed as before, and what remains yet to be said. */
static inline void health_calm_outcome(struct algo_decision *out)
{
	algo_decision_allow(out);
	out->phase = HEALTH_CLOSED;
	out->phase_change_count = 0;
}

/**
 * An acquire while the row is calm: when its permit ends, with all of `out` set. 0: it is not calm,
 * or somebody was faster; nothing has changed.
 */
uint64_t health_row_try(const struct algo_limit *limit, const struct row_state *at, uint64_t id,
                        uint64_t now_ns, struct algo_decision *out);
/** A report that is good, likewise. Returns false if nothing has changed. */
bool health_row_try_report(const struct algo_limit *limit, const struct row_state *at,
                           const struct health_report *report, uint64_t now_ns);

#endif
