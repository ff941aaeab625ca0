/*
 * breaker_record.h: keeps a breaker in the cells of a record: its phase, its window of results, and
 * the permits in flight.
 *
 * The header counts nothing: it retains the record, and is PINNED, so never evicted, in a phase
 * that must not be forgotten. The record has
 *
 *     phase           tag 32 | slow 7 | bad 7 | good 7 | in flight 7 | phase 3
 *                                                           since 60 | ended 3 | for ever 1
 *                     of an open one, instead of probes: spread 7 | doublings 7
 *     quiescence      name 32 | span 32                                       from 64
 *     layout          tag 32 | judge_only 1 | max_concurrent 31               mixed until 60 | 0
 *     sleep           tag 32 | doublings                                      opened at 60 | 0
 *
 * and then stripes, which are alike, and of which each has
 *
 *     parts           tag 32 | 1 | name 31              calls 21 | failures 21 | slow 21
 *     or blocks       tag 32 | 1 | name 31              number 27 | count 5 | outcomes 2 each
 *     in-flight       tag 32 | 0 | count 31                                   until 60 | mark 4
 *
 * *Stripes.* The sum over the stripes counts. The id of a permit names its stripe, which counts the
 * permit from its acquire to its result. Threads therefore write cache lines of their own, and only
 * read those of others.
 *
 * *Permits.* An in-flight entry counts permits that were given in one part of time, until the last
 * of them times out. With max_concurrent each permit has an entry of its own, and there are no more
 * entries. With judge_only a request that would be denied passes with an unrecorded permit: it ends
 * at an odd nanosecond, all others at even ones. In a mixed record permits from before a reload may
 * end at any nanosecond.
 *
 * *Results.* A part counts the results of a time, a block has BREAKER_BLOCK results in their order.
 * The name of a part or block says to which phase it belongs, so results of another phase are
 * ignored, and nothing has to be cleaned.
 *
 * *Sleep.* A half-open phase needs the doublings of the open phase before it, for which its cell
 * has no space. They are stored before the phase changes from open. The sleep cell says when that
 * open phase began, so a call that stalls and writes later changes nothing.
 *
 * *Quiescence.* A key is quiescent from a time on and for a span if its phase is closed, and its
 * window has the minimum of calls and does not trip. In that span no part begins or ends, and no
 * in-flight entry times out. Then neither time alone nor a successful call changes the phase, so
 * that a call reads only a few cells.
 *
 * *Layout.* A reload that changes max_concurrent gives the cells of a record another meaning,
 * except the window of the first stripe. Each cell therefore says what it is: a bit tells in-flight
 * entries from names, and an entry's mark says whether it is of one permit. The record is *mixed*
 * until everything counted before the reload has ended: entries and parts may be in any cell then,
 * also in the narrower record of a former table. The mark also tells permits of another timeout and
 * windows of another kind: such entries are ignored, and their cells are free. One mark in 8 is the
 * same for both.
 *
 * Each change is a compare-and-swap of one cell. docs/design/breaker-states.md gives the order of
 * the changes and the state that a process leaves if it dies between two of them.
 */
#ifndef RECORDS_BREAKER_RECORD_H
#define RECORDS_BREAKER_RECORD_H

#include "algo/outcomes/breaker_state.h"
#include "records/newest.h"
#include "records/record.h"

#define BREAKER_GROUPS_MAX (4 * ALGO_STRIPES * BREAKER_IN_FLIGHT_PARTS)

#define BREAKER_RETENTION_MIN_NS                                                                   \
	NS_PER_DAY /* a window of calls is retained for at least this long */

/* The phase and the permits in flight, as a read found them. */
struct breaker_snapshot {
	struct cell phase_cell;     /* the phase as stored, ... */
	struct breaker_state state; /* and as it is at now_ns */
	uint64_t in_flight;
	uint64_t in_flight_of_phase; /* given since the phase began and not timed out as probes */
	uint64_t first_ends_in_ns;   /* until the first permit ends; UINT64_MAX without permits */
	uint64_t last_ends_in_ns;
	bool has_overdue;           /* permits that have timed out, and the read has not expired them */
	uint64_t probes_lost_at_ns; /* half-open: when lost probes timed out, or 0 */
	bool is_mixed;              /* entries and parts may be in any cell, since a reload */
};

/* In-flight entries by how far ahead they end: those of one permit each, and groups of several. */
struct breaker_list {
	struct newest single_ends;
	struct breaker_group {
		struct cell *cell;
		uint64_t ahead_ns;
	} groups[BREAKER_GROUPS_MAX];
	size_t group_count;
};

#define BREAKER_LOST_PARTS (BREAKER_PARTS_MAX + 2) /* parts ago: no window counts an older one */

/*
 * The expired permits that a read has found. Such a read expires in-flight entries that have timed
 * out. It adds up the permits that count in the snapshot's phase, by the part of the window in
 * which they timed out, the current part first. It lists all other entries, unless `list` is NULL.
 */
struct breaker_expiry {
	uint64_t lost_count, lost_by_part[BREAKER_LOST_PARTS];
	uint64_t first_lost_at_ns, last_lost_at_ns; /* when the first and the last one timed out */
	struct breaker_list *list;
};

/* Where in a record a permit may be in flight. */
struct breaker_permit {
	uint64_t start_ns, until_ns;
	unsigned stripe;
	unsigned id_stripe;  /* its id's stripe, where */
	bool has_no_id;      /* the permit may be in any later stripe, too */
	unsigned index;      /* the cell to search first; 0 if it is not known */
	bool in_single_only; /* search single entries only */
};

/* `count` calls that ended at `at_ns` with the same result. */
struct breaker_results {
	struct breaker_result result;
	uint64_t count, ended_at_ns;
	unsigned stripe; /* the stripe that counts them */
};

enum breaker_acquired { BREAKER_ACQUIRED, BREAKER_FULL, BREAKER_AGAIN };

/** When a permit ends that is given at `start_ns`. */
static inline uint64_t breaker_until_ns(const struct breaker_params *params, uint64_t start_ns)
{
	uint64_t until_ns = start_ns + params->timeout_ns;

	return until_ns + (until_ns & params->judge_only);
}

/** When an unrecorded permit ends, and whether a permit is one, in a record that is not mixed. */
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

/** Whether the key is quiescent. If so, `snapshot` gets the phase. */
bool breaker_record_is_quiescent(const struct algo_limit *limit, uint64_t now_ns,
                                 const struct record *record, struct breaker_snapshot *snapshot);
/**
 * Stores that the key is quiescent, after a read that found nothing overdue and a window that does
 * not trip.
 */
void breaker_record_set_quiescent(const struct algo_limit *limit, const struct record_state *at,
                                  const struct breaker_snapshot *snapshot, uint64_t now_ns);

/** Reads the record. One without cells is that of a key without a header. `expiry` may be NULL. */
void breaker_record_read(const struct algo_limit *limit, uint64_t now_ns,
                         const struct record *record, struct breaker_snapshot *snapshot,
                         struct breaker_expiry *expiry);

/** Adds the in-flight entries of a record in a former table to `snapshot`. */
void breaker_record_add_in_flight(const struct algo_limit *limit, uint64_t now_ns,
                                  const struct record *record, struct breaker_snapshot *snapshot,
                                  struct breaker_expiry *expiry);

/** Visits the ends (how far ahead) of the entries of one permit each. */
void breaker_record_visit_singles(const struct algo_limit *limit, uint64_t now_ns,
                                  const struct record_state *at, newest_visit *visit,
                                  struct newest *newest);
/**
 * Releases the permits of a record that `newest` includes. Returns how many. Raises `*last_ns` to
 * how far ahead the last permit ends that stays.
 */
uint64_t breaker_record_release_newest(const struct algo_limit *limit, uint64_t now_ns,
                                       const struct record *record, struct newest *newest,
                                       uint64_t *last_ns);
/** Releases up to `n` permits of a group. Returns how many. */
uint64_t breaker_group_release(const struct algo_limit *limit, uint32_t tag,
                               const struct breaker_group *group, uint64_t n);

/** Gives the record this limit's layout. It is mixed then, if it had another one. */
void breaker_record_adopt_layout(const struct algo_limit *limit, const struct record_state *at,
                                 uint64_t now_ns);

/** Reads the phase alone. */
void breaker_record_read_phase(const struct algo_limit *limit, uint64_t now_ns,
                               const struct record *record, struct breaker_snapshot *snapshot);

/**
 * Swaps the phase of `snapshot` for `after`, also in `snapshot`. Returns false if the stored phase
 * has changed.
 */
bool breaker_record_change_phase(const struct record_state *at, struct breaker_snapshot *snapshot,
                                 const struct breaker_state *after);

/** Adds a permit that is given in the snapshot's phase. If the clock lags, it may end later. */
enum breaker_acquired breaker_record_acquire(const struct algo_limit *limit,
                                             const struct record_state *at,
                                             const struct breaker_snapshot *snapshot,
                                             struct breaker_permit *permit, uint64_t now_ns);
/** Whether the permit seems to be in flight. If so, stores its index in `permit`. */
bool breaker_record_has_permit(const struct algo_limit *limit, const struct record_state *at,
                               struct breaker_permit *permit);
/** Releases the permit. Returns false if it is not in flight. */
bool breaker_record_release(const struct algo_limit *limit, const struct record_state *at,
                            struct breaker_permit permit);
/** Expires all in-flight entries of the record. */
void breaker_record_expire_all(const struct algo_limit *limit, const struct record_state *at);

/** Counts results in the window of the snapshot's phase. */
void breaker_record_count(const struct algo_limit *limit, const struct record_state *at,
                          const struct breaker_snapshot *snapshot,
                          const struct breaker_results *results, uint64_t now_ns);

/** Adds the counts of a cell that is replaced to the same part of the first stripe. */
void breaker_record_move_counts(const struct algo_limit *limit, const struct record_state *at,
                                const struct breaker_snapshot *snapshot, struct cell replaced,
                                uint64_t now_ns);

/**
 * Sums up the window of the snapshot's phase. Returns for how long something in it still counts.
 */
uint64_t breaker_record_tally(const struct algo_limit *limit, const struct record *record,
                              const struct breaker_snapshot *snapshot, uint64_t now_ns,
                              struct breaker_tally *tally);
/** Adds the same of another record to `tally`. */
uint64_t breaker_record_add_tally(const struct algo_limit *limit, const struct record *record,
                                  const struct breaker_snapshot *snapshot, uint64_t now_ns,
                                  struct breaker_tally *tally);

/** How long the part of now still counts. */
static inline uint64_t breaker_record_ahead_ns(const struct breaker_params *params, uint64_t now_ns)
{
	if (params->part_ns == 0)
		return BREAKER_RETENTION_MIN_NS;
	return breaker_part_counts_until_ns(params, breaker_part(params, now_ns)) - now_ns;
}

/** Whether the header retains the record long enough, and is PINNED if the phase requires it. */
bool breaker_record_header_fits(const struct algo_limit *limit, struct cell header, uint32_t tag,
                                const struct breaker_state *state, uint64_t now_ns);
/** A header that fits. */
struct cell breaker_record_header(const struct algo_limit *limit, uint32_t tag,
                                  const struct breaker_state *state, uint64_t now_ns);

/* Allowed by a closed phase. The caller sets `remaining` and `reset_after_ns`. */
static inline void breaker_quiescent_outcome(struct algo_decision *out)
{
	algo_decision_allow(out);
	out->phase = BREAKER_CLOSED;
	out->phase_change_count = 0;
}

/**
 * Acquires a permit while the key is quiescent, and sets all of `out`. Returns when the permit
 * ends, or 0 if the key is not quiescent or another thread was faster. Nothing has changed then.
 */
uint64_t breaker_record_try_acquire(const struct algo_limit *limit, const struct record_state *at,
                                    uint64_t id, uint64_t now_ns, struct algo_decision *out);
/** Applies a successful report while the key is quiescent. Returns false if nothing has changed. */
bool breaker_record_try_report(const struct algo_limit *limit, const struct record_state *at,
                               const struct breaker_report *report, uint64_t now_ns);

#endif
