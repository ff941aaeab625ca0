/* limiter.c: implements the public calls on a limiter: one limit with one state, without keys. */
#include <stdlib.h>

#include <weir/limiter.h>

#include "api/ask.h"
#include "base/error.h"
#include "engine/plan/plan.h"
#include "wait/sleep.h"

struct weir_limiter {
	struct store_keyless state;
	/* Read-only, so not on the cache lines of the state, which changes. */
	_Alignas(64) struct weir_limit limit;
	struct clock clock;
	struct waitlist *waiting; /* the requests that wait; NULL until there was one */
};

int weir_limiter_open(const struct weir_limit_options *options, weir_limiter **out,
                      struct weir_error *error)
{
	struct weir_limiter *limiter = NULL;
	int status;

	*out = NULL;
	if (posix_memalign((void **)&limiter, 128, sizeof *limiter) != 0)
		return error_set(error, WEIR_ENOMEM, "out of memory");
	limiter->waiting = NULL;
	limiter->clock = clock_start(clock_offset(), true);
	status = limit_init_by_fields(&limiter->limit, options, error);
	if (status == WEIR_OK && store_keyless_open(&limiter->state, &limiter->limit.algo) != WEIR_OK) {
		limit_free(&limiter->limit);
		status = error_set(error, WEIR_ENOMEM, "out of memory");
	}
	if (status != WEIR_OK) {
		free(limiter);
		return status;
	}
	*out = limiter;
	return WEIR_OK;
}

void weir_limiter_close(weir_limiter *limiter)
{
	if (!limiter)
		return;
	limit_free(&limiter->limit);
	waitlist_close(limiter->waiting);
	store_keyless_close(&limiter->state);
	free(limiter);
}

static inline struct moment limiter_moment(const struct weir_limiter *limiter, uint64_t now_ns)
{
	return limit_moment(&limiter->clock, now_ns, &limiter->limit);
}

/* As limiter_run, for any call and state. */
__attribute__((noinline, flatten)) static uint64_t limiter_run_slow(struct weir_limiter *limiter,
                                                                    struct algo_call call,
                                                                    struct moment at,
                                                                    struct weir_decision *d)
{
	const struct store_step step = {.limit = &limiter->limit.algo, .call = call, .at = at};
	struct algo_decision outcome;
	uint64_t until_ns;

	if (step.limit->algorithm->draws) { /* it denies a random share, and has no state to expire */
		limit_draw(&limiter->limit, &call, at, d);
		return 0;
	}
	until_ns = store_keyless_run(&limiter->state, &step, &outcome);
	limit_fill_decision(&limiter->limit, step.limit, &outcome, d);
	return until_ns;
}

/* Runs a call on the limiter's state. Returns when the new state expires. */
static inline uint64_t limiter_run(struct weir_limiter *limiter, const struct algo_call *call,
                                   struct moment at, struct weir_decision *d)
{
	const struct store_step step = {.limit = &limiter->limit.algo, .call = *call, .at = at};
	struct algo_decision outcome;
	uint64_t until_ns;

	if (__builtin_expect(!store_keyless_try(&limiter->state, &step, &outcome, &until_ns), 0))
		return limiter_run_slow(limiter, *call, at, d);
	limit_fill_decision(&limiter->limit, step.limit, &outcome, d);
	return until_ns;
}

/* Runs an operation without options, and wakes the requests that can pass after it. */
static inline int limiter_decide(struct weir_limiter *limiter, enum algo_op op, uint64_t cost,
                                 uint64_t now_ns, struct weir_decision *d)
{
	struct algo_call call = {op, cost, 0};

	if (!limit_cost_fits(&limiter->limit, op, cost))
		return WEIR_ECOST;
	limiter_run(limiter, &call, limiter_moment(limiter, now_ns), d);
	if (!algo_op_requests(op))
		waitlist_wake(&limiter->waiting, 0);
	return WEIR_OK;
}

/*
 * Acquiring is the frequent operation: the whole decision is compiled for it alone. The other
 * operations share the code of limiter_decide_any.
 */
__attribute__((flatten)) int weir_limiter_acquire(weir_limiter *limiter, uint64_t cost,
                                                  uint64_t now_ns, struct weir_decision *decision)
{
	return limiter_decide(limiter, ALGO_ACQUIRE, cost, now_ns, decision);
}

__attribute__((noinline)) static int limiter_decide_any(struct weir_limiter *limiter,
                                                        enum algo_op op, uint64_t cost,
                                                        uint64_t now_ns,
                                                        struct weir_decision *decision)
{
	return limiter_decide(limiter, op, cost, now_ns, decision);
}

int weir_limiter_peek(weir_limiter *limiter, uint64_t cost, uint64_t now_ns,
                      struct weir_decision *decision)
{
	return limiter_decide_any(limiter, ALGO_PEEK, cost, now_ns, decision);
}

int weir_limiter_refund(weir_limiter *limiter, uint64_t cost, uint64_t now_ns,
                        struct weir_decision *decision)
{
	return limiter_decide_any(limiter, ALGO_REFUND, cost, now_ns, decision);
}

int weir_limiter_reset(weir_limiter *limiter, uint64_t now_ns, struct weir_decision *decision)
{
	return limiter_decide_any(limiter, ALGO_RESET, 0, now_ns, decision);
}

/* Whether `ask` has no options beside a cost of one or more, a time and a permit. */
static inline bool is_plain_ask(const struct weir_ask *ask)
{
	return (ask->priority | ask->deadline_ns | (uintptr_t)ask->permits | ask->reserved[0] |
	        ask->reserved[1]) == 0;
}

/*
 * Grants or denies a permit by the fast path of limits that judge outcomes (breakers). Returns
 * false if that path can't decide: then nothing has changed.
 */
static inline bool try_quick_ask(struct weir_limiter *limiter, const struct weir_ask *ask,
                                 uint64_t id, struct weir_decision *decision)
{
	const struct algo_limit *algo = &limiter->limit.algo;
	uint64_t cost = ask->cost == 0 ? 1 : ask->cost, until_ns;
	struct algo_decision outcome;

	if (!algo->algorithm->judges || cost > algo->quota || !is_plain_ask(ask))
		return false;
	until_ns = store_keyless_try_permit(
	    &limiter->state, algo, id, limiter_moment(limiter, ask_time(ask->now_ns)).now_ns, &outcome);
	if (__builtin_expect(until_ns == 0, 0))
		return false;
	limit_fill_decision(&limiter->limit, algo, &outcome, decision);
	*ask->permit = engine_permit_of(outcome.allowed ? id : 0, until_ns, cost);
	return true;
}

/* Whether the permit has not expired, so that there may be a charge of it to refund. */
static bool may_be_outstanding(const struct weir_limiter *limiter, const struct weir_permit *permit,
                               struct moment at)
{
	return permit->id != 0 && permit->until_ns > algo_time_at(&limiter->limit.algo, at).now_ns;
}

/*
 * Runs `call`, a refund or report, on the charge of a permit. Returns ENOTFOUND if the permit was
 * not outstanding; the call then has no cost, and only fills in the decision.
 */
static int limiter_end_permit(struct weir_limiter *limiter, const struct weir_permit *permit,
                              struct algo_call call, uint64_t now_ns,
                              struct weir_decision *decision)
{
	struct moment at = limiter_moment(limiter, now_ns);
	bool is_outstanding = may_be_outstanding(limiter, permit, at);

	call.cost = is_outstanding ? permit->cost : 0;
	call.until_ns = permit->until_ns;
	call.permit = permit->id;
	limiter_run(limiter, &call, at, decision);
	waitlist_wake(&limiter->waiting, 0);
	decision->allowed &= is_outstanding;
	return decision->allowed ? WEIR_OK : WEIR_ENOTFOUND;
}

int weir_limiter_refund_permit(weir_limiter *limiter, const struct weir_permit *permit,
                               uint64_t now_ns, struct weir_decision *decision)
{
	enum algo_op op =
	    limiter->limit.algo.record == ALGO_RECORD_LEASES ? ALGO_REFUND_LAST : ALGO_REFUND;

	return limiter_end_permit(limiter, permit, (struct algo_call){.op = op}, now_ns, decision);
}

/*
 * Reports if the fast path can't. A report to a limit on concurrency ends the permit. Limits that
 * are neither that nor judge outcomes count no reports: the result only says whether the permit is
 * outstanding.
 */
__attribute__((noinline)) static int report_slow(struct weir_limiter *limiter,
                                                 const struct weir_permit *permit,
                                                 const struct weir_report *report, uint64_t now_ns)
{
	struct weir_decision ignored;

	if (algo_is_reported(&limiter->limit.algo))
		return limiter_end_permit(limiter, permit,
		                          (struct algo_call){.op = algo_report_op(&limiter->limit.algo),
		                                             .outcome = report->outcome,
		                                             .latency_ns = report->latency_ns},
		                          now_ns, &ignored);
	return may_be_outstanding(limiter, permit, limiter_moment(limiter, now_ns)) ? WEIR_OK
	                                                                            : WEIR_ENOTFOUND;
}

int weir_limiter_report(weir_limiter *limiter, const struct weir_permit *permit,
                        const struct weir_report *report)
{
	uint64_t now_ns = ask_time(report->now_ns);

	if (ask_check_report(report) != WEIR_OK)
		return WEIR_EINVAL;
	if (limiter->limit.algo.algorithm->judges && permit->id != 0) {
		const struct breaker_report outcome = {permit->until_ns, permit->id, report->latency_ns,
		                                       report->outcome};

		if (store_keyless_try_report(&limiter->state, &limiter->limit.algo, &outcome,
		                             limiter_moment(limiter, now_ns).now_ns)) {
			waitlist_wake(&limiter->waiting, 0);
			return WEIR_OK;
		}
	}
	return report_slow(limiter, permit, report, now_ns);
}

struct limiter_wait {
	struct wait wait; /* first */
	struct weir_limiter *limiter;
	struct algo_call call; /* to acquire */
	uint64_t until_ns;
};

/*
 * Decides for a waiting thread: acquires for the first request of the queue, only peeks for a
 * request behind it. Returns false if the request has to wait.
 */
static bool decide_limiter(struct wait *wait, enum wait_position position, uint64_t max_wait_ns,
                           struct moment at, struct weir_decision *d)
{
	struct limiter_wait *waiting = (struct limiter_wait *)wait;
	struct weir_limiter *limiter = waiting->limiter;
	struct algo_call call = waiting->call;
	bool only_asks = call.cost == 0;
	bool is_first = position >= WAIT_FIRST; /* a new request, too, is behind those that wait */
	bool is_behind =
	    !only_asks && !is_first && waitlist_has(waitlist_at(&limiter->waiting), wait->key_hash);
	enum weir_reason reason;

	if (is_behind)
		call.op = ALGO_PEEK;
	call.max_wait_ns = max_wait_ns;
	waiting->until_ns = limiter_run(limiter, &call, at, d);
	if (only_asks || (d->allowed && !is_behind))
		return true;
	reason = wait_refusal_reason(wait->limit, position, max_wait_ns, d);
	if (reason != WEIR_REASON_OK)
		wait_deny(d, reason);
	return reason != WEIR_REASON_OK;
}

static void deny_limiter(struct wait *wait, enum weir_reason reason, struct moment at,
                         struct weir_decision *d)
{
	(void)wait;
	(void)at;
	wait_deny(d, reason);
}

/* Blocks until the call is decided or its max_wait_ns is over. *until_ns is the permit's expiry. */
static int wait_for_limiter(struct weir_limiter *limiter, const struct algo_call *call,
                            struct weir_decision *decision, uint64_t *until_ns)
{
	struct limiter_wait waiting = {
	    .wait = {.clock = &limiter->clock,
	             .list = &limiter->waiting,
	             .decide = decide_limiter,
	             .deny = deny_limiter,
	             .limit = &limiter->limit.algo,
	             .priority = call->priority,
	             .arrival = call->is_late ? WAIT_LATE : WAIT_NEW},
	    .limiter = limiter,
	    .call = *call,
	};
	int status = wait_sleep(&waiting.wait, call->max_wait_ns, decision);

	*until_ns = waiting.until_ns;
	return status;
}

int weir_limiter_ask(weir_limiter *limiter, const struct weir_ask *ask,
                     struct weir_decision *decision)
{
	struct algo_call call;
	uint64_t id = 0, until_ns;
	int status;

	if (ask->permit) {
		id = permit_cheap_id();
		if (__builtin_expect(try_quick_ask(limiter, ask, id, decision), 1)) /* fills the permit */
			return WEIR_OK;
	}
	status = ask_to_call(ask, ask->permits, &call);
	if (status != WEIR_OK)
		return status;
	if (!limit_could_grant(&limiter->limit, ALGO_ACQUIRE, call.cost, 0, call.max_wait_ns))
		return WEIR_ECOST;
	call.permit = id;
	if (call.max_wait_ns != 0)
		status = wait_for_limiter(limiter, &call, decision, &until_ns);
	else
		until_ns =
		    limiter_run(limiter, &call, limiter_moment(limiter, ask_time(ask->now_ns)), decision);
	if (status == WEIR_OK && ask->permit)
		*ask->permit =
		    engine_permit_of(decision->allowed && call.cost > 0 ? id : 0, until_ns, call.cost);
	return status;
}

int weir_limiter_shed(weir_limiter *limiter, double deny)
{
	return weir_limit_shed(&limiter->limit, deny);
}

int weir_limiter_force(weir_limiter *limiter, enum weir_force force, uint64_t until_ns,
                       uint64_t now_ns)
{
	struct algo_call call = {.op = ALGO_FORCE, .until_ns = until_ns, .force = force};
	struct moment at = limiter_moment(limiter, now_ns);
	struct weir_decision ignored;

	if (!algo_can_force(&limiter->limit.algo, force))
		return WEIR_EINVAL;
	if (until_ns != 0 && until_ns <= at.now_ns)
		return WEIR_ERANGE;
	limiter_run_slow(limiter, call, at, &ignored);
	waitlist_wake(&limiter->waiting, 0);
	return WEIR_OK;
}
