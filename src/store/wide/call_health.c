/*
 * call_health.c: acquires, reports, resets and forces a key of a limit with phases.
 *
 * rows/health.h keeps it in cells, each of which changes by itself; what each change is to be,
 * algo/outcomes/health.h says. An acquire takes a flight, then, in half-open, a probe of the phase;
 * a report gives back the probe, then the flight, and counts the outcome; whoever finds that the
 * window says so opens it, by one swap of the phase. docs/design/health.md tells why the order is
 * this, and what a process leaves that dies in between.
 */
#include <string.h>

#include "base/prng.h"
#include "base/os/fence.h"
#include "rows/health.h"
#include "store/wide/health_phase.h"
#include "store/wide/health_rows.h"

static void explain(const struct watch *watch, const struct health_state *health, uint64_t own_ns,
                    struct algo_decision *out)
{
	const struct health_params *params = &watch->held.limit->health;
	struct health_tally tally;
	uint64_t ahead_ns = health_rows_tally(watch, &tally);

	ahead_ns = u64_max(ahead_ns, u64_max(own_ns, watch->seen.last_ns));
	out->reset_after_ns = u64_max(ahead_ns, health_ttl_ns(params, health, watch->held.now_ns));
}

/* A denial writes nothing, but that a request which finds no room may count as failed. */
static void refuse(struct watch *watch, bool takes, struct algo_decision *out)
{
	if (out->reason == WEIR_REASON_OVER_LIMIT)
		out->retry_after_ns = u64_min(out->retry_after_ns, watch->seen.first_ns);
	explain(watch, &watch->seen.health, 0, out);
	if (takes && out->reason == WEIR_REASON_OVER_LIMIT && watch->held.limit->health.refusals_fail &&
	    watch->seen.health.phase <= HEALTH_RAMP)
		health_phase_count(watch, (struct health_ends){{.failed = true}, 1, watch->held.now_ns, 0});
	else if (takes)
		health_phase_keep(watch, &watch->seen.health);
}

__attribute__((noinline, cold)) static bool are_too_many(struct watch again)
{
	fence_behind_swap();
	health_rows_look(&again, NULL);
	return again.seen.in_flight > again.held.limit->health.max_concurrent;
}

/*
 * Whether more permits are in flight than may be. If all of them have cells side by side, there are
 * no more cells. Else two calls may have taken the last room, and the later of them finds out.
 */
static bool is_one_too_many(const struct watch *watch)
{
	return (watch->seen.mixed || watch->held.count > 1) &&
	       watch->held.limit->health.max_concurrent != 0 && are_too_many(*watch);
}

/*
 * A permit for what `health` has granted. Returns false if the caller is to look again; `out` may
 * be a denial for want of room.
 */
static bool take(struct watch *watch, const struct health_state *health, uint64_t id,
                 struct algo_decision *out, uint64_t *until_ns)
{
	const struct algo_limit *limit = watch->held.limit;
	struct health_permit permit = health_permit_of(
	    &limit->health, health_until_ns(&limit->health, health_start(health, watch->held.now_ns)),
	    id);
	enum held_kept kept = health_phase_keep(watch, &watch->seen.health);
	bool turns = health->phase == HEALTH_HALF_OPEN;

	if (kept == HELD_NO_ROOM) {
		algo_decision_table_full(limit, out);
		*until_ns = 0;
		return true;
	}
	if (kept == HELD_CHANGED || health_row_take(limit, &watch->held.rows[0].at, &watch->seen,
	                                            permit, watch->held.now_ns) != HEALTH_TAKEN)
		return false;
	if (is_one_too_many(watch) || (turns && !health_phase_change(watch, health, ALGO_BY_SLEEP))) {
		health_row_give(limit, &watch->held.rows[0].at, permit);
		return false;
	}
	*until_ns = permit.until_ns;
	return true;
}

/* A request that was denied; if the limit only judges, it passes. */
static uint64_t pass_denied(const struct watch *watch, bool takes, struct algo_decision *out)
{
	const struct health_params *params = &watch->held.limit->health;

	if (!params->judge_only)
		return 0;
	algo_decision_allow(out);
	return takes ? health_bare_until_ns(params, watch->held.now_ns) : 0;
}

/* Whether a permit is in no row. Permits of before a reload may only seem so. */
static bool is_bare(const struct watch *watch, uint64_t until_ns)
{
	return health_is_bare(&watch->held.limit->health, until_ns) && !watch->seen.mixed &&
	       watch->held.count == 1;
}

static uint64_t acquire(struct watch *watch, const struct algo_call *call,
                        struct algo_decision *out)
{
	bool takes = algo_consumes(call);
	uint64_t draw = call->draw, until_ns = 0;

	for (;;) {
		struct health_request request;
		struct health_state health;

		health_phase_settle(watch, NULL);
		health = watch->seen.health;
		if (takes && draw == 0 && health_needs_draw(&health))
			draw = prng_next();
		request = (struct health_request){takes ? &draw : NULL, watch->told, watch->seen.in_flight};
		if (!health_decide(watch->held.limit, &health, watch->held.now_ns, &request, out)) {
			refuse(watch, takes, out);
			return pass_denied(watch, takes, out);
		}
		if (!takes) {
			if (held_is_full(&watch->held))
				algo_decision_table_full(watch->held.limit, out);
			else
				explain(watch, &watch->seen.health, 0, out);
			return out->allowed ? 0 : pass_denied(watch, takes, out);
		}
		if (take(watch, &health, call->permit, out, &until_ns)) {
			if (until_ns > 0)
				explain(watch, &health, until_ns - watch->held.now_ns, out);
			return out->allowed ? until_ns : pass_denied(watch, takes, out);
		}
	}
}

/* How the key stands. */
static void tell_seen(const struct watch *watch, struct algo_decision *out)
{
	out->remaining =
	    health_capacity(&watch->held.limit->health, &watch->seen.health, watch->seen.in_flight);
	explain(watch, &watch->seen.health, 0, out);
}

/* The same, once a permit is given back. */
static void tell(struct watch *watch, struct algo_decision *out)
{
	health_phase_settle(watch, NULL);
	tell_seen(watch, out);
}

/* Whether it is a probe of the half-open one that was seen, whose time is not over. */
static bool is_probe(const struct watch *watch, const struct health_permit *permit)
{
	const struct health_state *health = &watch->seen.health;
	uint64_t end_ns = health_probe_end_ns(&watch->held.limit->health, permit->until_ns);

	return health->phase == HEALTH_HALF_OPEN && health_counts(health, permit->start_ns) &&
	       end_ns > watch->held.now_ns;
}

/* Whether the permit was in flight. */
static bool give(struct watch *watch, struct health_permit permit, struct health_result result,
                 bool counts)
{
	const struct algo_limit *limit = watch->held.limit;

	for (;;) {
		struct health_state after;
		const struct row_state *row;

		health_phase_settle(watch, NULL);
		after = watch->seen.health;
		if (is_bare(watch, permit.until_ns))
			return permit.until_ns > watch->held.now_ns;
		row = permit.until_ns > watch->held.now_ns ? health_rows_find(watch, &permit) : NULL;
		if (!row)
			return false;
		if (!watch->held.rows[0].at.cell && health_phase_keep(watch, &after) != HELD_NO_ROOM)
			continue; /* its result counts in the newest table */
		if (watch->held.rows[0].at.cell && is_probe(watch, &permit)) {
			if (!health_phase_end_probes(watch, result, 1, watch->held.now_ns))
				continue;
			health_row_give(limit, row, permit);
			return true;
		}
		if (!health_row_give(limit, row, permit))
			return false;
		if (counts && watch->held.rows[0].at.cell && after.phase <= HEALTH_RAMP &&
		    health_counts(&after, permit.start_ns))
			health_phase_count(watch,
			                   (struct health_ends){result, 1, watch->held.now_ns, permit.stripe});
		return true;
	}
}

/* How its request ended. */
static struct health_result result_of(const struct algo_limit *limit, const struct algo_call *call,
                                      uint64_t start_ns, uint64_t now_ns)
{
	if (!algo_op_reports(call->op))
		return (struct health_result){.ignored = true};
	return health_result_of(&limit->health, call->outcome,
	                        call->latency_ns ? call->latency_ns : sat_sub(now_ns, start_ns));
}

/*
 * The outcome of another server's permit: it counts in the window of a closed key. A probe's
 * outcome decides the phase at the server that gave it (give()).
 */
static void count_foreign(struct watch *watch, const struct algo_call *call)
{
	struct health_permit permit;
	enum held_kept kept = HELD_CHANGED;

	while (kept == HELD_CHANGED) {
		health_phase_settle(watch, NULL);
		kept =
		    watch->held.rows[0].at.cell ? HELD_KEPT : health_phase_keep(watch, &watch->seen.health);
	}
	permit = health_permit_of(&watch->held.limit->health, call->until_ns, call->permit);
	if (kept == HELD_KEPT && !is_bare(watch, call->until_ns) &&
	    watch->seen.health.phase <= HEALTH_RAMP &&
	    health_counts(&watch->seen.health, permit.start_ns))
		health_phase_count(watch,
		                   (struct health_ends){result_of(watch->held.limit, call, permit.start_ns,
		                                                  watch->held.now_ns),
		                                        1, watch->held.now_ns, permit.stripe});
}

/*
 * Gives back the newest permits. Those of a half-open phase are probes, which then nobody judges.
 */
__attribute__((noinline)) static void give_newest(struct watch *watch, uint64_t n,
                                                  struct algo_decision *out)
{
	static const struct health_result ignored = {.ignored = true};
	struct health_list list;
	bool turned = true;

	list.alone.n = u64_max(n, 1);
	do {
		const struct health_state *health = &watch->seen.health;
		unsigned probes;

		health_phase_settle(watch, &list);
		probes = (unsigned)u64_min(u64_min(n, watch->seen.own), health->flying);
		if (watch->held.rows[0].at.cell && health->phase == HEALTH_HALF_OPEN && probes > 0)
			turned = health_phase_end_probes(watch, ignored, probes, watch->held.now_ns);
	} while (!turned);
	health_rows_give_newest(watch, &list, n);
	tell_seen(watch, out);
}

/* Gives back a permit, or without a name the newest ones. */
static void give_back(struct watch *watch, const struct algo_call *call, struct algo_decision *out)
{
	const struct algo_limit *limit = watch->held.limit;
	struct health_permit permit;
	bool given;

	if (call->op == ALGO_COUNT) {
		count_foreign(watch, call);
		tell(watch, out);
		return;
	}
	if (call->until_ns == 0 && call->op == ALGO_REFUND) {
		give_newest(watch, call->cost, out);
		return;
	}
	if (call->until_ns == 0)
		health_phase_settle(watch, NULL); /* without a name it reports the newest permit */
	permit = call->until_ns
	             ? health_permit_of(&limit->health, call->until_ns, call->permit)
	             : health_permit_of(&limit->health, watch->held.now_ns + watch->seen.last_ns, 0);
	given = call->cost > 0 &&
	        give(watch, permit, result_of(limit, call, permit.start_ns, watch->held.now_ns),
	             call->op != ALGO_SETTLE);
	if (call->op == ALGO_REFUND && !given && call->cost > 0)
		tell_seen(watch, out); /* as it was found */
	else if (call->op == ALGO_REFUND)
		tell(watch, out);
	else if (call->cost == 0)
		health_phase_settle(watch, NULL); /* a permit whose time was over may open it now */
	out->allowed = given || call->until_ns == 0;
}

/* Its window is forgotten with the phase; permits of before are in flight no more. */
static void reset(struct watch *watch, struct algo_decision *out)
{
	if (watch->told)
		watch->told->resets = true;
	for (;;) {
		struct health_state after = {.phase = HEALTH_CLOSED, .since_ns = watch->held.now_ns};
		struct health_tally tally;

		health_phase_settle(watch, NULL);
		if (!watch->held.rows[0].at.cell &&
		    !(watch->held.count > 1 &&
		      health_phase_keep(watch, &watch->seen.health) != HELD_NO_ROOM))
			break;
		if (!watch->held.rows[0].at.cell)
			continue;
		health_row_end_all(watch->held.limit, &watch->held.rows[0].at);
		health_rows_end_former(watch);
		after.since_ns = u64_max(after.since_ns, watch->seen.health.since_ns + 1);
		if (watch->seen.health.phase >= HEALTH_FORCED_OPEN ||
		    (watch->seen.health.phase == HEALTH_CLOSED && health_rows_tally(watch, &tally) == 0) ||
		    health_phase_change(watch, &after, ALGO_BY_RESET))
			break;
	}
	watch->seen.in_flight = watch->seen.last_ns = 0;
	tell_seen(watch, out);
}

/* A time that is further ahead than a cell can tell never comes. */
static uint64_t forced_until(const struct algo_call *call, uint64_t now_ns)
{
	bool ends = call->until_ns != 0 && sat_sub(call->until_ns, now_ns) <= ALGO_HORIZON_NS;

	return ends ? call->until_ns : HEALTH_FOR_EVER;
}

/*
 * Puts the key into a phase. Returns false if the caller is to read the key anew. Without room it
 * is denied.
 */
static bool enter(struct watch *watch, const struct health_state *after, enum algo_cause cause,
                  struct algo_decision *out)
{
	enum held_kept kept = health_phase_keep(watch, after);

	if (kept == HELD_NO_ROOM)
		algo_decision_table_full(watch->held.limit, out);
	return kept == HELD_NO_ROOM || (kept == HELD_KEPT && health_phase_change(watch, after, cause));
}

static void force(struct watch *watch, const struct algo_call *call, struct algo_decision *out)
{
	static const enum health_phase phases[] = {[WEIR_FORCE_OPEN] = HEALTH_FORCED_OPEN,
	                                           [WEIR_FORCE_CLOSED] = HEALTH_FORCED_CLOSED,
	                                           [WEIR_FORCE_AUTO] = HEALTH_CLOSED};
	bool is_auto = call->force == WEIR_FORCE_AUTO;
	struct health_state after;

	do {
		health_rows_look(watch, NULL);
		if (is_auto && watch->seen.health.phase < HEALTH_FORCED_OPEN)
			break;
		after = (struct health_state){.phase = phases[call->force],
		                              .since_ns = is_auto ? watch->held.now_ns
		                                                  : forced_until(call, watch->held.now_ns)};
	} while (!enter(watch, &after, ALGO_BY_FORCE, out));
	if (!out->allowed)
		return;
	if (watch->told)
		watch->told->rejoins = is_auto;
	tell(watch, out);
}

/* Does what its fleet says. Not `allowed`: an operator has forced it, so the fleet has to wait. */
static void obey(struct watch *watch, const struct algo_call *call, struct algo_decision *out)
{
	struct health_state after;

	do {
		health_rows_look(watch, NULL);
		if (watch->told)
			*watch->told = (struct algo_notification){0};
		after = watch->seen.health;
		if (!health_apply_group(&watch->held.limit->health, &after, call, watch->held.now_ns))
			break;
	} while (!enter(watch, &after, ALGO_BY_GROUP, out));
	if (!out->allowed)
		return;
	tell(watch, out);
	out->allowed = after.phase < HEALTH_FORCED_OPEN;
	if (watch->told)
		watch->told->since_ns = after.since_ns;
}

/* While it is calm, a call needs a few cells, and little else. */
static bool apply_calmly(struct held *held, const struct algo_call *call, struct algo_decision *out,
                         uint64_t *until_ns)
{
	const struct row_state *at = &held->rows[0].at;
	bool takes = call->op == ALGO_ACQUIRE;

	if (!(takes || call->op == ALGO_REPORT) || call->cost == 0)
		return false;
	held_find_first(held);
	if (!at->cell || cell_tag(at->head) != at->row.tag)
		return false;
	if (takes) {
		*until_ns = health_row_try(held->limit, at, call->permit, held->now_ns, out);
		return *until_ns != 0;
	}
	*until_ns = 0;
	health_calm_outcome(out);
	out->remaining = out->reset_after_ns = 0;
	return health_row_try_report(
	    held->limit, at,
	    &(struct health_report){call->until_ns, call->permit, call->latency_ns, call->outcome},
	    held->now_ns);
}

__attribute__((noinline)) static uint64_t
apply_watched(struct watch *watch, const struct algo_call *call, struct algo_decision *out)
{
	uint64_t until_ns = 0;

	watch->told = call->notification;
	watch->lost_ns = 0;
	watch->turned = 0;
	memset(watch->turns, 0, sizeof watch->turns);
	if (algo_op_requests(call->op)) {
		until_ns = acquire(watch, call, out);
	} else if (algo_op_releases(call->op)) {
		out->remaining = out->reset_after_ns = 0;
		give_back(watch, call, out);
	} else if (call->op == ALGO_RESET) {
		reset(watch, out);
	} else if (call->op == ALGO_FORCE) {
		force(watch, call, out);
	} else {
		obey(watch, call, out);
	}
	out->phase = (uint8_t)(watch->turned > 0 ? watch->turns[watch->turned - 1].to
	                                         : watch->seen.health.phase);
	out->phase_change_count = watch->turned;
	memcpy(out->phase_changes, watch->turns, sizeof out->phase_changes);
	return until_ns;
}

uint64_t health_apply(const struct holder *holder, const struct algo_call *call,
                      struct algo_decision *out)
{
	struct watch watch;
	uint64_t until_ns;

	held_begin(&watch.held, holder);
	if (apply_calmly(&watch.held, call, out, &until_ns))
		return until_ns;
	algo_decision_allow(out);
	return apply_watched(&watch, call, out);
}
