/*
 * algo.h: declares a limit, the state of a key, and the step by which an algorithm decides.
 *
 *     (limit, call, time, state) -> (new state, decision)
 *
 * A step is a pure function: it reads no clock, takes no lock and allocates nothing. `table` and
 * `store` hold the states, and let several threads change one.
 *
 * A state is one time and one word, because a cell of the table has space for no more beside the
 * key's tag:
 *
 *     until_ns   when the state expires (the bucket is full again, the window over). A state whose
 *                until_ns is at or before `now` equals none, so nobody needs to clear idle keys.
 *     word       32 bits, whose meaning is in the file of the algorithm.
 *
 * An algorithm that needs more than one word has no step of this form; see record_kinds.h.
 */
#ifndef ALGO_ALGO_H
#define ALGO_ALGO_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include <weir/weir.h>

#include "algo/algorithm.h"
#include "algo/op.h"
#include "algo/record_kinds.h"
#include "base/number.h"
#include "base/time/clock.h"

/*
 * No state ends later than this after now. Cells count time modulo 2^60 ns, 18 years either way of
 * now, which leaves 2 years for clocks that step back.
 */
#define ALGO_HORIZON_NS (UINT64_C(16) * 365 * NS_PER_DAY)

/*
 * A state that ends later than its limit allows was written under a clock that is ahead, or that
 * has been set back since. Up to a day it stays as it is, because the clocks of two servers may
 * differ, and a state that is cut gives away tokens. A state that ends even later is cut once, to
 * the latest end that the limit allows now.
 */
#define ALGO_SKEW_NS NS_PER_DAY

struct zone;
struct algo_cache;
struct demand;

struct algo_state {
	uint64_t until_ns; /* 0 in a state that was never used */
	uint32_t word;
};

/* A state that was written under other parameters, converted to those of the limit. */
struct algo_converted {
	struct algo_state whole; /* with all units that are in use */
	struct algo_state cut;   /* with at most the units that the limit allows; mostly the same */
};

/* The windows of the calendar, see rates/calendar.c. */
struct calendar {
	struct zone *zone; /* owned by the limit */
	uint64_t period;   /* length of a window, in units */
	enum weir_unit unit;
	enum weir_weekday week_start;
};

/* An exact time or length of ns - under/q nanoseconds, 0 <= under < q: `ns` is rounded up. */
struct bucket_time {
	uint64_t ns;
	uint32_t under;
};

/* Parameters of buckets, see rates/bucket.c. They stand here for the inlined fast path. */
struct bucket_params {
	uint64_t count;              /* tokens per period */
	uint64_t burst;              /* tokens in `depth`, rounded up */
	uint64_t p;                  /* period / gcd(count, period) */
	uint64_t q;                  /* count / gcd(count, period); T = p/q ns */
	struct bucket_time interval; /* T */
	struct bucket_time depth;    /* a request past it is denied, ... */
	struct bucket_time at_once;  /* and one past this waits */
	enum weir_reason denial;     /* the reason past `depth` */
};

/** Which quota the decisions of a limit show. */
enum algo_quota {
	ALGO_QUOTA_FIXED,   /* that of the limit */
	ALGO_QUOTA_DECIDED, /* that of each decision: it changes */
	ALGO_QUOTA_NONE,    /* 0, of which 0 units remain: the limit has none */
};

/* Words for the parameters of other algorithms, whose layout only their own files know. */
#define ALGO_OWN_WORDS 12

struct algo_limit {
	const struct algorithm *algorithm;
	uint64_t identity;       /* hash of name, algorithm and period: limits of one share states */
	uint16_t generation;     /* number of these parameters, see store/parameter_history.h */
	bool has_whole_interval; /* a bucket whose tokens come in whole nanoseconds */
	bool is_adhoc;           /* its parameters come with each request: such limits share states */
	uint8_t quota_kind;      /* enum algo_quota */
	bool header_has_sum;     /* a sliding window whose headers have the sum of all units in use */
	uint64_t quota;          /* the most units that it grants at once; also the greatest cost */
	uint64_t chunk;       /* units that a server takes from a remote store at once, or 0 */
	uint64_t period_ns;   /* of the rate; for months and years the longest */
	uint64_t farthest_ns; /* a state that ends later after now is from a clock that was set back */
	uint64_t window_ns;   /* shown to users: the period, or the time in which a bucket fills */
	union {
		struct bucket_params bucket;
		struct slots_params slots;
		struct log_params log;
		struct day_params day;
		struct leases_params leases;
		struct breaker_params breaker;
		struct success_params success;
		struct in_flight_params in_flight;
		uint64_t own[ALGO_OWN_WORDS];
	};
	enum algo_record record; /* copied from the algorithm, ... */
	bool paced;           /* as is this */
	uint64_t retry_ns;    /* retry_after_ns of denials whose end is unknown */
	uint64_t queue;       /* requests that may wait for a key although they did not ask to, or 0 */
	uint64_t max_wait_ns; /* how long they wait at most; in a paced limit: for a turn */
	uint64_t count;       /* of the rate */
	unsigned width;       /* of a wide state: the least number of its cells; 0 for other states */
	uint64_t keys; /* of a wide state: keys to reserve space for, or 0 for the store's share */
	struct calendar calendar; /* of aligned windows and days only, as is the cache */
	struct cpu *cpu;          /* load of the processors, or NULL if the limit ignores it */
	struct algo_cache *cache; /* the calendar's window last computed */
	struct demand *demand;    /* of a limit that sheds a share by priority; owned by the limit */
	const struct algo_limit
	    *_Atomic successor; /* NULL until another limit takes over; last field */
};

/*
 * Counters that many threads change are split into stripes, each on cache lines of its own. The
 * highest bits of a permit's id name the stripe of the thread that granted it.
 */
#define ALGO_STRIPES      4
#define ALGO_STRIPE_SHIFT 62

/*
 * The message of one server to its quorum group (servers that decide a breaker together) about one
 * key: the results of its probes since the last message, and its wishes.
 */
struct algo_notification {
	uint64_t since_ns;               /* when the phase of these probes began */
	uint32_t good, bad, slow, freed; /* probes by result; slow ones are good or bad as well, freed
	                                    ones were not used */
	bool trips;                      /* its window of results is bad enough to open the breaker */
	bool wants_probe;                /* a request was denied because no probe was left */
	bool resets;                     /* the key was reset */
	bool rejoins;                    /* an operator no longer forces the key */
};

/** Whether there is anything to notify. */
static inline bool algo_notification_is_due(const struct algo_notification *notification)
{
	return notification->trips || notification->wants_probe || notification->resets ||
	       notification->rejoins ||
	       (notification->good | notification->bad | notification->freed) != 0;
}

/* A call of an operation, with its arguments: first those that several operations have. */
struct algo_call {
	enum algo_op op;
	uint64_t cost;     /* in units; acquire and peek: at most the limit's quota */
	uint64_t until_ns; /* refund: the end of the window or turn to refund to, or 0 for any;
	                      report, count, settle: the end of the permit, or 0 for the newest permit;
	                      force: the end of the force, or 0 for none */
	uint64_t draw;     /* 64 fair random bits for a limit without states (algorithm->draws), if
	                      algo_makes_draw; 0 elsewhere, where steps that need a draw make one */
	uint64_t permit;   /* id of a permit, or 0: random bits, and a stripe (ALGO_STRIPE_SHIFT);
	                      acquire: of the new permit; refund and report: of the permit that ends */
	struct algo_notification *notification; /* out, if a quorum group decides the limit, or NULL */
	uint8_t priority; /* acquire and peek: from 0, the highest, to PRIORITY_LOWEST */
	bool is_late;     /* acquire: the caller's deadline was over when the call began */
	bool counts_denial; /* peek: an acquire follows if all limits allow it, so a denial counts like
	                       that of an acquire; and a limit that sheds requests draws */
	bool has_drawn;     /* such a peek of the same request has passed before: nothing is drawn */
	union {
		struct { /* acquire and peek */
			uint64_t max_wait_ns; /* of a paced limit: the longest wait that the caller accepts, 0
			                         for the limit's own, WEIR_ZERO for no wait; never longer than
			                         the limit's own */
			uint64_t earlier; /* peek at a limit that pays_later (algorithm.h): units that the same
			                     request takes before, by charges of `cost` each */
		};
		struct { /* report and count */
			uint64_t latency_ns; /* of the request, or 0 for the age of its permit */
			enum weir_outcome outcome;
		};
		enum weir_force force; /* force */
	};
};

/** Whether the call consumes units if it is allowed: a call of cost 0 does not. */
static inline bool algo_consumes(const struct algo_call *call)
{
	return algo_op_consumes(call->op) && call->cost > 0;
}

/** Whether a limit that denies a share of requests draws: once for a request. */
static inline bool algo_makes_draw(const struct algo_call *call)
{
	return (algo_consumes(call) || call->counts_denial) && !call->has_drawn;
}

/*
 * The time of a call. It is the same for all keys of a limit, so it is computed once, not in steps.
 */
struct algo_time {
	uint64_t now_ns; /* Unix time by the wall clock for limits with a calendar, by the anchored
	                    clock (base/time/clock.h) for others */
	uint64_t window_end_ns; /* end of the calendar window that contains now; 0 without calendar */
};

/* Why a breaker changed its phase. */
enum algo_cause {
	ALGO_BY_NOTHING,
	ALGO_BY_FAILURES,      /* too large a share of the window's requests failed */
	ALGO_BY_FAILURE_COUNT, /* too many of them failed */
	ALGO_BY_SLOWNESS,      /* too large a share of them was slow */
	ALGO_BY_BAD_PROBE,
	ALGO_BY_GOOD_PROBES,
	ALGO_BY_SLEEP, /* the sleep of an open breaker was over */
	ALGO_BY_TIME, /* a ramp or a force was over; no call makes this change, so no decision has it */
	ALGO_BY_FORCE, /* by an operator */
	ALGO_BY_RESET,
	ALGO_BY_GROUP, /* decided by the quorum group */
	ALGO_CAUSE_COUNT,
};

/* A change of a breaker from one enum breaker_phase (outcomes/breaker_state.h) to another. */
struct algo_phase_change {
	uint8_t from, to;
	uint8_t cause; /* enum algo_cause */
};

/* A call rarely causes two phase changes; further ones are merged into the last. */
#define ALGO_PHASE_CHANGES_MAX 2

struct algo_decision {
	bool allowed;
	uint8_t phase; /* of a breaker: its enum breaker_phase after the call; this and the next field
	                  are undefined for other limits */
	uint8_t phase_change_count; /* of `phase_changes` */
	enum weir_reason reason;
	uint64_t remaining;
	uint64_t retry_after_ns;
	uint64_t reset_after_ns;
	uint64_t wait_ns; /* of an allowed request: the time until it may start */
	uint64_t quota;   /* where the limit's quota changes (ALGO_QUOTA_DECIDED) */
	struct algo_phase_change phase_changes[ALGO_PHASE_CHANGES_MAX];
};

/* Allows the request without a wait. */
static inline void algo_decision_allow(struct algo_decision *out)
{
	out->allowed = true;
	out->reason = WEIR_REASON_OK;
	out->retry_after_ns = 0;
	out->wait_ns = 0;
}

/* Denies the request; the same request would pass after retry_after_ns. Returns false. */
static inline bool algo_decision_deny(struct algo_decision *out, enum weir_reason reason,
                                      uint64_t retry_after_ns)
{
	out->allowed = false;
	out->reason = reason;
	out->retry_after_ns = retry_after_ns;
	return false;
}

/*
 * Allows the request after a wait, unless that is longer than the caller accepts, or, with the
 * reason `denial`, too_late_ns (if not 0) longer than the limit allows. If both, the later time
 * counts. Returns whether the request is allowed.
 */
static inline bool algo_decision_wait(struct algo_decision *out, const struct algo_call *call,
                                      uint64_t wait_ns, uint64_t too_late_ns,
                                      enum weir_reason denial)
{
	if (__builtin_expect(call->max_wait_ns != 0, 0)) {
		uint64_t patience_ns = call->max_wait_ns == WEIR_ZERO ? 0 : call->max_wait_ns;

		if (wait_ns > patience_ns)
			return algo_decision_deny(out, too_late_ns > 0 ? denial : WEIR_REASON_WAIT_TOO_LONG,
			                          u64_max(too_late_ns, wait_ns - patience_ns));
	}
	if (too_late_ns > 0)
		return algo_decision_deny(out, denial, too_late_ns);
	out->wait_ns = wait_ns;
	return true;
}

/* A refund that names a window or turn is allowed if it refunded units, or was to refund none. */
static inline void algo_decision_refund(struct algo_decision *out, const struct algo_call *call,
                                        bool gave)
{
	out->allowed = gave || call->until_ns == 0 || call->cost == 0;
}

/* Denies the request because the table has no space for the key; it is unknown for how long. */
static inline void algo_decision_table_full(const struct algo_limit *limit,
                                            struct algo_decision *out)
{
	*out = (struct algo_decision){.reason = WEIR_REASON_NO_ROOM,
	                              .retry_after_ns = limit->retry_ns,
	                              .reset_after_ns = limit->retry_ns}; /* no sooner than a retry */
}

/**
 * Makes `limit` from `options`, which it checks. Errors as weir_limit_open. Free with
 * algo_limit_free.
 */
int algo_limit_init(struct algo_limit *limit, const struct weir_limit_options *options,
                    struct weir_error *error);
/** Copies a limit, without its successor. Errors: ENOMEM, ENOTFOUND (the time zone). */
int algo_limit_copy(struct algo_limit *copy, const struct algo_limit *limit);
void algo_limit_free(struct algo_limit *limit);

/* A window of the calendar, in Unix time. The end is not part of it. */
struct algo_window {
	uint64_t start_ns, end_ns;
};

/** Whether windows or days are the calendar's, in a time zone. */
static inline bool algo_has_calendar(const struct algo_limit *limit)
{
	return limit->cache != NULL;
}

/** The window that contains a time, for a limit with a calendar. */
struct algo_window algo_window_at(const struct algo_limit *limit, uint64_t wall_ns);

struct algo_time algo_time_at(const struct algo_limit *limit, struct moment at);

/**
 * Performs one operation. Returns whether *state changed.
 *
 * An acquire consumes `cost` units if the limit grants them; with cost 0 it decides for 1, and
 * consumes none. A peek decides as an acquire would, but `remaining` counts no units for it. A
 * refund releases up to `cost` of the units in use. A reset releases all.
 */
bool algo_step(const struct algo_limit *limit, const struct algo_call *call,
               const struct algo_time *time, struct algo_state *state, struct algo_decision *out);

/**
 * The same for a limit with has_whole_interval. If it denies and algo_is_too_far_ahead, the caller
 * must call algo_step in its place.
 */
bool algo_step_whole(const struct algo_limit *limit, const struct algo_call *call,
                     const struct algo_time *time, struct algo_state *state,
                     struct algo_decision *out);

/**
 * Whether `step` is the step of the limit. Compares the algorithm, not the pointers, because a
 * limit from another library has that library's own copy of all functions.
 */
bool algo_has_step(const struct algo_limit *limit, algorithm_step *step);

/* A time that never comes, or a wait without end. */
#define ALGO_NEVER UINT64_MAX

/**
 * Converts `state` from the layout `from` at now, for a store in which limits with other parameters
 * may use the key at the same time. Since these need all its units, none are cut off, and the
 * result may end later than the limit allows. Returns
 *
 * - the end of `state`: it has all units, and may be stored
 * - another end, that of all units: `state` was cut, since it ended so late that it would look like
 *   one of a clock that was set back; it must not be stored
 * - ALGO_NEVER: the same, and no time can say the end of all units
 */
uint64_t algo_convert_now(const struct algo_limit *limit, const struct algo_layout *from,
                          uint64_t now_ns, struct algo_state *state);

/**
 * The shortest wait of a request for any state of its key, if it charges the key `earlier` units
 * before; or ALGO_NEVER if that is surely longer than the limit lets a request wait.
 */
uint64_t algo_least_wait_ns(const struct algo_limit *limit, uint64_t cost, uint64_t earlier);

/** Whether a state ends later than the limit lets any end. */
static inline bool algo_is_too_far_ahead(const struct algo_limit *limit,
                                         const struct algo_time *time,
                                         const struct algo_state *state)
{
	return state->until_ns > time->now_ns + limit->farthest_ns;
}

/**
 * Sets the share of requests that the limit denies, from 0 to 1, in its successors, too. Returns
 * WEIR_OK, EINVAL (the algorithm has no share) or ERANGE.
 */
int algo_shed(const struct algo_limit *limit, double deny);

/**
 * Lets `next`, of the same identity, take over from `limit`. A thread that still decides by `limit`
 * and finds a state of other parameters, or any wide state, decides by `next` from then on.
 */
void algo_hand_over(struct algo_limit *limit, struct algo_limit *next);

/** Whether its requests hold an entry of the key until they are reported, and so need permits. */
static inline bool algo_holds_leases(const struct algo_limit *limit)
{
	return limit->record == ALGO_RECORD_LEASES;
}

/** Whether its keys have the phases of a breaker, into which an operator can force them. */
static inline bool algo_has_phases(const struct algo_limit *limit)
{
	return limit->record == ALGO_RECORD_BREAKER;
}

/** Whether an operator may force a key of the limit so. */
static inline bool algo_can_force(const struct algo_limit *limit, enum weir_force force)
{
	return algo_has_phases(limit) && (unsigned)force <= WEIR_FORCE_CLOSED;
}

/** Whether its requests must be reported when they end, and so get permits. */
static inline bool algo_is_reported(const struct algo_limit *limit)
{
	return algo_holds_leases(limit) || limit->algorithm->judges;
}

/** The operation that ends a permit: without outcomes to judge, a refund. */
static inline enum algo_op algo_report_op(const struct algo_limit *limit)
{
	return limit->algorithm->judges ? ALGO_REPORT : ALGO_REFUND;
}

/** Whether the limit is decided in this process's table, even if others count at a remote store. */
static inline bool algo_is_local(const struct algo_limit *limit)
{
	return limit->algorithm->draws || limit->algorithm->judges;
}

/** The quota of a decision and what remains of it, as users see them. */
static inline void algo_show_quota(const struct algo_limit *limit,
                                   const struct algo_decision *decision, uint64_t *quota,
                                   uint64_t *remaining)
{
	*quota = limit->quota;
	*remaining = decision->remaining;
	if (__builtin_expect(limit->quota_kind == ALGO_QUOTA_FIXED, 1))
		return;
	*quota = limit->quota_kind == ALGO_QUOTA_DECIDED ? decision->quota : 0;
	if (limit->quota_kind == ALGO_QUOTA_NONE)
		*remaining = 0;
}

/** The limit to decide by: `limit`, or the last of its successors. */
static inline const struct algo_limit *algo_current(const struct algo_limit *limit)
{
	const struct algo_limit *next;

	while ((next = atomic_load_explicit(&((struct algo_limit *)limit)->successor, memory_order_acquire)))
		limit = next;
	return limit;
}

/** Whether the limit has no successor. */
static inline bool algo_is_current(const struct algo_limit *limit)
{
	return !atomic_load_explicit(&((struct algo_limit *)limit)->successor, memory_order_acquire);
}

#endif
