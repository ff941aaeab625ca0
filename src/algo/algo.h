/*
 * algo.h: a limit's parameters and the pure step that every algorithm is.
 *
 *     (parameters, old state, now, cost) -> (new state, decision)
 *
 * A step reads no clock, takes no lock and allocates nothing. Where states
 * live and how two threads meet on one is the business of `table` and `store`.
 *
 * A state is one time and one word:
 *
 *     until_ns   when the state has nothing left to say (the bucket is full
 *                again, the window over). At or before `now` the state equals
 *                none at all, so idle keys need no sweeper.
 *     word       what else the algorithm remembers, 32 bits.
 *
 * That is all a cell of the table has room for beside the key's tag; each
 * algorithm's file says what it keeps in them. What needs more says in record_kinds.h
 * how its rows are kept.
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
 * No state may reach further ahead than this. Cells count time modulo 2^60 ns,
 * 18 years either way of now, which leaves 2 years for clocks that step back.
 */
#define ALGO_HORIZON_NS (UINT64_C(16) * 365 * NS_PER_DAY)

/*
 * A state further ahead than its limit could have put it was written by a clock
 * that has been set back since. Clocks that only differ must not share out
 * tokens, so up to a day it stands; what is further ahead is cut back, once, to
 * the furthest that the limit can put it now.
 */
#define ALGO_SKEW_NS NS_PER_DAY

struct zone;
struct algo_cache;
struct demand;

struct algo_state {
	uint64_t until_ns; /* 0 in a state never used */
	uint32_t word;
};

/* A state that other parameters wrote, as the limit would have it. */
struct algo_converted {
	struct algo_state whole; /* with all of the use */
	struct algo_state cut;   /* with the use that the limit allows at most; mostly the same */
};

/* The calendar's windows, see rates/calendar.c. */
struct calendar {
	struct zone *zone; /* owned by the limit */
	uint64_t period;   /* in units */
	enum weir_unit unit;
	enum weir_weekday week_start;
};

/* An exact time or length: ns - under/q nanoseconds, 0 <= under < q. `ns` is it rounded up. */
struct bucket_time {
	uint64_t ns;
	uint32_t under;
};

/* Parameters of buckets, here for the inlined fast path. */
struct bucket_params {
	uint64_t count;              /* tokens per period */
	uint64_t burst;              /* tokens in `depth`, rounded up */
	uint64_t p;                  /* period / gcd(count, period) */
	uint64_t q;                  /* count / gcd(count, period); T = p/q ns */
	struct bucket_time interval; /* T */
	struct bucket_time depth;    /* what is admitted, ... */
	struct bucket_time at_once;  /* and of it without a wait */
	enum weir_reason denial;
};

/* Room for the parameters of other algorithms, which only their own files know. */
#define ALGO_OWN_WORDS 12

struct algo_limit {
	const struct algorithm *algorithm;
	uint64_t identity;       /* of its counts: name, algorithm and period */
	uint16_t generation;     /* of these parameters; store/parameter_history.h */
	bool has_whole_interval; /* a bucket whose tokens come in whole nanoseconds */
	bool is_adhoc;           /* it travels in requests: all such limits share their states */
	bool is_measured;        /* its quota changes: an outcome says what it is */
	bool header_has_sum;     /* a sliding window whose heads say all that is in use */
	uint64_t quota;       /* what it grants at once; also the greatest cost */
	uint64_t chunk;       /* units that a server takes from a remote store at once, or 0 */
	uint64_t period_ns;   /* the rate's; of months and years the longest */
	uint64_t farthest_ns; /* no state of it is further ahead, but of clocks that were set back */
	uint64_t window_ns;   /* for explanations: the period, of a bucket what it takes to fill */
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
	enum algo_record record; /* the algorithm's, ... */
	bool paced;           /* as is this */
	uint64_t retry_ns;    /* after which a request asks again where nothing better is known */
	uint64_t queue;       /* how many may wait for a key without being asked to, or 0 */
	uint64_t max_wait_ns; /* and how long at most; of paced limits for a turn */
	uint64_t count;       /* the rate's */
	unsigned width; /* of wide states: least cells of a row; of other states 0 */
	uint64_t keys;  /* of wide states: how many to have room for at least, or 0 for the store's share */
	struct calendar calendar; /* aligned windows and days only, as is the cache */
	struct cpu *cpu;          /* how busy the processors are, or NULL if it makes no difference */
	struct algo_cache *cache; /* the calendar's window last asked for */
	struct demand *demand;    /* of limits that shed a share by priority; owned by the limit */
	const struct algo_limit *_Atomic successor; /* the last: once other parameters have taken over */
};

/*
 * The highest bits of a permit's id tell in which stripe its thread counts: what is counted apart in
 * each stripe, threads change without meeting.
 */
#define ALGO_STRIPES      4
#define ALGO_STRIPE_SHIFT 62

/*
 * What a limit's own server tells its quorum group: the probes that have ended, and the requests
 * that follow.
 */
struct algo_notification {
	uint64_t since_ns; /* when the phase began that the probes are of */
	uint32_t good, bad, slow, freed; /* slow ones are good or bad as well */
	bool trips;  /* its window says that it is to open */
	bool wants_probe; /* a request was denied for want of a probe */
	bool resets; /* it was reset */
	bool rejoins; /* an operator forces it no more */
};

/** Whether there is anything to notify. */
static inline bool algo_notification_is_due(const struct algo_notification *notification)
{
	return notification->trips || notification->wants_probe || notification->resets ||
	       notification->rejoins ||
	       (notification->good | notification->bad | notification->freed) != 0;
}

/* An operation with its arguments: first those of several, then of one each. */
struct algo_call {
	enum algo_op op;
	uint64_t cost;     /* acquire and peek: at most the limit's quota */
	uint64_t until_ns; /* refund: only into the window, or of the turn, that ends then, or 0 for
	                      current use; report, count, settle: of the permit, or 0 for the newest;
	                      force: until when, or 0 for ever */
	uint64_t draw;     /* acquire from a random limit: 64 fair bits; of others that draw now and
	                      then 0, since they draw when they have to */
	uint64_t permit;   /* acquire: the id that the request's places carry, or 0; refund and report:
	                      of which permit; random bits, and a stripe (ALGO_STRIPE_SHIFT) */
	struct algo_notification *notification; /* out, if a quorum group decides the limit, or NULL */
	uint8_t priority; /* acquire and peek: from 0, the highest, to PRIORITY_LOWEST */
	union {
		struct { /* acquire and peek */
			uint64_t max_wait_ns; /* of a paced limit: 0 for the limit's own, WEIR_ZERO for no wait, else
			                         at most so long, and never longer than the limit's own */
			uint64_t earlier; /* peek at a limit whose requests pay later (algorithm.h): so many
			                     units does the same request take first, by charges of `cost` */
		};
		struct { /* report and count */
			uint64_t latency_ns; /* of the request, or 0 for the time that the permit was held */
			enum weir_outcome outcome;
		};
		enum weir_force force; /* force */
	};
};

/** Whether the call takes units, if it is allowed: one of cost 0 only asks. */
static inline bool algo_consumes(const struct algo_call *call)
{
	return algo_op_consumes(call->op) && call->cost > 0;
}

/* When: the same for every key of a limit, so found once and not part of the step. */
struct algo_time {
	uint64_t now_ns;        /* the wall's for aligned windows, else the anchored clock's */
	uint64_t window_end_ns; /* of the calendar window that now lies in; 0 without calendar */
};

/* Why a breaker has gone from one phase to another. */
enum algo_cause {
	ALGO_BY_NOTHING,
	ALGO_BY_FAILURES,      /* too large a share of the window's calls failed, ... */
	ALGO_BY_FAILURE_COUNT, /* or a number of them */
	ALGO_BY_SLOWNESS, /* or were slow */
	ALGO_BY_BAD_PROBE,
	ALGO_BY_GOOD_PROBES,
	ALGO_BY_SLEEP, /* which is over */
	ALGO_BY_TIME,  /* a ramp or force was over; no call turns it then, so none tells of that */
	ALGO_BY_FORCE, /* an operator */
	ALGO_BY_RESET,
	ALGO_BY_GROUP, /* the quorum group, by its windows or its probes */
	ALGO_CAUSE_COUNT,
};

/* That it has; the phases are those of outcomes/breaker_state.h. */
struct algo_phase_change {
	uint8_t from, to;
	uint8_t cause; /* enum algo_cause */
};

/* A call rarely causes two phase changes; further ones are merged into the last. */
#define ALGO_PHASE_CHANGES_MAX 2

struct algo_decision {
	bool allowed;
	uint8_t phase;              /* of a breaker: enum breaker_phase, as it is now; as is ... */
	uint8_t phase_change_count; /* how many `phase_changes` there are; of other limits both may be
	                               anything */
	enum weir_reason reason;
	uint64_t remaining;
	uint64_t retry_after_ns;
	uint64_t reset_after_ns;
	uint64_t wait_ns; /* allowed, but only after so long */
	uint64_t quota;   /* of a limit that is measured */
	struct algo_phase_change phase_changes[ALGO_PHASE_CHANGES_MAX];
};

/* Allowed, ok, and no wait. */
static inline void algo_decision_allow(struct algo_decision *out)
{
	out->allowed = true;
	out->reason = WEIR_REASON_OK;
	out->retry_after_ns = 0;
	out->wait_ns = 0;
}

/* Denied; the same request would pass after so long. */
static inline bool algo_decision_deny(struct algo_decision *out, enum weir_reason reason,
                                      uint64_t retry_after_ns)
{
	out->allowed = false;
	out->reason = reason;
	out->retry_after_ns = retry_after_ns;
	return false;
}

/*
 * Allowed after so long, unless that is too_late_ns later than the limit lets a request start, for
 * the reason `denial`, or longer than the caller would wait. Where it is both, the later time
 * counts.
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

/* A refund that names a time says whether it gave anything back. One of cost 0 asks for nothing. */
static inline void algo_decision_refund(struct algo_decision *out, const struct algo_call *call,
                                        bool gave)
{
	out->allowed = gave || call->until_ns == 0 || call->cost == 0;
}

/* Denied, since the table has no room for the key: nobody knows when others let go of theirs. */
static inline void algo_decision_table_full(const struct algo_limit *limit,
                                            struct algo_decision *out)
{
	*out = (struct algo_decision){.reason = WEIR_REASON_NO_ROOM,
	                              .retry_after_ns = limit->retry_ns,
	                              .reset_after_ns = limit->retry_ns}; /* not sooner */
}

/** Checks `options` and fills `limit`. Errors as weir_limit_open. Free with algo_limit_free. */
int algo_limit_init(struct algo_limit *limit, const struct weir_limit_options *options,
                    struct weir_error *error);
/** A copy that outlives it, and that nothing takes over. Errors: ENOMEM, ENOTFOUND (its zone). */
int algo_limit_copy(struct algo_limit *copy, const struct algo_limit *limit);
void algo_limit_free(struct algo_limit *limit);

/* A window of the calendar: Unix time, the end is not in it. */
struct algo_window {
	uint64_t start_ns, end_ns;
};

/** The window that a time is in, of a limit with a calendar (limit->cache). */
struct algo_window algo_window_at(const struct algo_limit *limit, uint64_t wall_ns);

struct algo_time algo_time_at(const struct algo_limit *limit, struct moment at);

/**
 * One step. Returns whether *state changed.
 *
 * acquire  takes `cost` when the limit grants it; cost 0 answers for 1, taking nothing
 * peek     answers as acquire would, `remaining` as it stands, taking nothing
 * refund   gives back up to `cost` of what is in use, never below none
 * reset    forgets all use
 */
bool algo_step(const struct algo_limit *limit, const struct algo_call *call,
               const struct algo_time *time, struct algo_state *state, struct algo_decision *out);

/** The same for a limit that is whole, but for what algo_is_too_far_ahead tells of when it denies.
 */
bool algo_step_whole(const struct algo_limit *limit, const struct algo_call *call,
                     const struct algo_time *time, struct algo_state *state,
                     struct algo_decision *out);

/**
 * Whether a limit's step is this one. Not by its pointer: the limit may be another library's, which
 * has a copy of its own of all functions.
 */
bool algo_has_step(const struct algo_limit *limit, algorithm_step *step);

/**
 * algorithm.convert as of now, for a store that other parameters may be used with at the same time.
 * A state that is stored must not hide from them what a cut takes off. So the state has all use, and
 * reaches further ahead than the limit admits; or, where it would be taken for one of a clock that was
 * set back, it is cut: do not store it. Returns the end of the state with all use, which is another than
 * the state's if it is cut, or UINT64_MAX if that is further than a time can say.
 */
uint64_t algo_convert_now(const struct algo_limit *limit, const struct algo_layout *from,
                          uint64_t now_ns, struct algo_state *state);
#define ALGO_NEVER UINT64_MAX
/**
 * How long a request waits at least, whatever the state of its key, if it charges the key `earlier`
 * units before; or ALGO_NEVER if that is surely longer than the limit lets it wait.
 */
uint64_t algo_least_wait_ns(const struct algo_limit *limit, uint64_t cost, uint64_t earlier);

/** Whether a state is further ahead than the limit puts any. */
static inline bool algo_is_too_far_ahead(const struct algo_limit *limit,
                                         const struct algo_time *time,
                                         const struct algo_state *state)
{
	return state->until_ns > time->now_ns + limit->farthest_ns;
}

/**
 * Changes the share of requests that the limit denies, in whatever has taken over from it, too.
 * 0, EINVAL (an algorithm without) or ERANGE.
 */
int algo_shed(const struct algo_limit *limit, double deny);

/**
 * Lets `next`, of the same identity, take over: whoever still decides by `limit`
 * and meets a state of other parameters, or any that is wide, decides by `next`
 * from then on. `next` then knows where the wide states are.
 */
void algo_hand_over(struct algo_limit *limit, struct algo_limit *next);

/** Whether its requests hold places until they are reported, and so get permits unasked. */
static inline bool algo_holds_leases(const struct algo_limit *limit)
{
	return limit->record == ALGO_RECORD_LEASES;
}

/** Whether its keys have the phases of a breaker, which can be forced. */
static inline bool algo_has_phases(const struct algo_limit *limit)
{
	return limit->record == ALGO_RECORD_BREAKER;
}

/** Whether an operator may force a key of it so. */
static inline bool algo_can_force(const struct algo_limit *limit, enum weir_force force)
{
	return algo_has_phases(limit) && (unsigned)force <= WEIR_FORCE_CLOSED;
}

/** Whether its requests are to be reported when they end, and so get permits unasked. */
static inline bool algo_is_reported(const struct algo_limit *limit)
{
	return algo_holds_leases(limit) || limit->algorithm->judges;
}

/** The operation by which a permit is reported: a limit that does not judge just takes it back. */
static inline enum algo_op algo_report_op(const struct algo_limit *limit)
{
	return limit->algorithm->judges ? ALGO_REPORT : ALGO_REFUND;
}

/** Whether it is decided in this process's table, wherever other limits count. */
static inline bool algo_is_local(const struct algo_limit *limit)
{
	return limit->algorithm->draws || limit->algorithm->judges;
}

/** The limit to decide by: `limit`, or the last that has taken over from it. */
static inline const struct algo_limit *algo_current(const struct algo_limit *limit)
{
	const struct algo_limit *next;

	while ((next = atomic_load_explicit(&((struct algo_limit *)limit)->successor, memory_order_acquire)))
		limit = next;
	return limit;
}

/** Whether nothing has taken over from it. */
static inline bool algo_is_current(const struct algo_limit *limit)
{
	return !atomic_load_explicit(&((struct algo_limit *)limit)->successor, memory_order_acquire);
}

#endif
