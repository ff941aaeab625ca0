/*
 * call_health.c: acquires, reports, resets and forces a key of a limit with phases.
 *
 * rows/health.h keeps it in cells, each of which changes by itself; what each change is to be,
 * algo/outcomes/health.h says. An acquire takes a flight, then, in half-open, a probe of the phase; a report
 * gives back the probe, then the flight, and counts the outcome; whoever finds that the window
 * says so opens it, by one swap of the phase. docs/design/health.md tells why the order
 * is this, and what a process leaves that dies in between.
 */
#include <string.h>

#include "base/draw.h"
#include "base/os/fence.h"
#include "rows/health.h"
#include "store/wide/health_phase.h"
#include "store/wide/health_rows.h"

static void explain(const struct watch *watch, const struct health_state *health, uint64_t own_ns,
                    struct algo_outcome *out)
{
	const struct health_params *params = &watch->limit->health;
	struct health_tally tally;
	uint64_t ahead_ns = health_rows_tally(watch, &tally);

	ahead_ns = u64_max(ahead_ns, u64_max(own_ns, watch->seen.last_ns));
	out->reset_after_ns = u64_max(ahead_ns, health_ahead_ns(params, health, watch->now_ns));
}

/* A denial writes nothing, but that a request which finds no room may count as failed. */
static void refuse(struct watch *watch, bool takes, struct algo_outcome *out)
{
	if (out->reason == WEIR_REASON_OVER_LIMIT)
		out->retry_after_ns = u64_min(out->retry_after_ns, watch->seen.first_ns);
	explain(watch, &watch->seen.health, 0, out);
	if (takes && out->reason == WEIR_REASON_OVER_LIMIT && watch->limit->health.refusals_fail &&
	    watch->seen.health.phase <= HEALTH_RAMP)
		health_phase_count(watch, (struct health_ends){{.failed = true}, 1, watch->now_ns, 0});
	else if (takes)
		health_phase_keep(watch, &watch->seen.health);
}

__attribute__((noinline, cold)) static bool are_too_many(struct watch again)
{
	fence_behind_swap();
	health_rows_look(&again, NULL);
	return again.seen.in_flight > again.limit->health.max_concurrent;
}

/*
 * Whether more permits are in flight than may be. If all of them have cells side by side, there are
 * no more cells. Else two calls may have taken the last room, and the later of them finds out.
 */
static bool is_one_too_many(const struct watch *watch)
{
	return (watch->seen.mixed || watch->has_former) && watch->limit->health.max_concurrent != 0 &&
	       are_too_many(*watch);
}

/* A permit for what `health` has granted. False: look again; `out` may be a denial for want of room. */
static bool take(struct watch *watch, const struct health_state *health, uint64_t id,
                 struct algo_outcome *out, uint64_t *until_ns)
{
	const struct algo_limit *limit = watch->limit;
	struct health_permit permit =
	    health_permit_of(&limit->health,
	                     health_until_ns(&limit->health, health_start(health, watch->now_ns)), id);
	enum health_kept kept = health_phase_keep(watch, &watch->seen.health);
	bool turns = health->phase == HEALTH_HALF_OPEN;

	if (kept == HEALTH_NO_ROOM) {
		algo_outcome_full(limit, out);
		*until_ns = 0;
		return true;
	}
	if (kept == HEALTH_CHANGED ||
	    health_row_take(limit, &watch->state.at, &watch->seen, permit, watch->now_ns) != HEALTH_TAKEN)
		return false;
	if (is_one_too_many(watch) || (turns && !health_phase_change(watch, health, ALGO_BY_SLEEP))) {
		health_row_give(limit, &watch->state.at, permit);
		return false;
	}
	*until_ns = permit.until_ns;
	return true;
}

/* A request that was denied; if the limit only judges, it passes. */
static uint64_t pass_denied(const struct watch *watch, bool takes, struct algo_outcome *out)
{
	const struct health_params *params = &watch->limit->health;

	if (!params->judge_only)
		return 0;
	algo_outcome_open(out);
	return takes ? health_bare_until_ns(params, watch->now_ns) : 0;
}

/* Whether a permit is in no row. Permits of before a reload may only seem so. */
static bool is_bare(const struct watch *watch, uint64_t until_ns)
{
	return health_is_bare(&watch->limit->health, until_ns) && !watch->seen.mixed &&
	       !watch->has_former;
}

static uint64_t acquire(struct watch *watch, const struct algo_call *call, struct algo_outcome *out)
{
	bool takes = call->op == ALGO_ACQUIRE && call->cost > 0;
	uint64_t draw = call->draw, until_ns = 0;

	for (;;) {
		struct health_request request;
		struct health_state health;

		health_phase_settle(watch, NULL);
		health = watch->seen.health;
		if (takes && draw == 0 && health_draws(&health))
			draw = draw_next();
		request = (struct health_request){takes ? &draw : NULL, watch->told, watch->seen.in_flight};
		if (!health_ask(watch->limit, &health, watch->now_ns, &request, out)) {
			refuse(watch, takes, out);
			return pass_denied(watch, takes, out);
		}
		if (!takes) {
			if (wide_is_full(&watch->state, watch->now_ns))
				algo_outcome_full(watch->limit, out);
			else
				explain(watch, &watch->seen.health, 0, out);
			return out->allowed ? 0 : pass_denied(watch, takes, out);
		}
		if (take(watch, &health, call->permit, out, &until_ns)) {
			if (until_ns > 0)
				explain(watch, &health, until_ns - watch->now_ns, out);
			return out->allowed ? until_ns : pass_denied(watch, takes, out);
		}
	}
}

/* How the key stands. */
static void tell_seen(const struct watch *watch, struct algo_outcome *out)
{
	out->remaining = health_room(&watch->limit->health, &watch->seen.health, watch->seen.in_flight);
	explain(watch, &watch->seen.health, 0, out);
}

/* The same, once a permit is given back. */
static void tell(struct watch *watch, struct algo_outcome *out)
{
	health_phase_settle(watch, NULL);
	tell_seen(watch, out);
}

/* Whether it is a probe of the half-open one that was seen, whose time is not over. */
static bool is_probe(const struct watch *watch, const struct health_permit *permit)
{
	const struct health_state *health = &watch->seen.health;
	uint64_t end_ns = health_probe_end_ns(&watch->limit->health, permit->until_ns);

	return health->phase == HEALTH_HALF_OPEN && health_counts(health, permit->start_ns) &&
	       end_ns > watch->now_ns;
}

/* Whether the permit was in flight. */
static bool give(struct watch *watch, struct health_permit permit, struct health_result result,
                 bool counts)
{
	const struct algo_limit *limit = watch->limit;

	for (;;) {
		struct health_state after;
		const struct row_state *row;
		struct wide_state former;

		health_phase_settle(watch, NULL);
		after = watch->seen.health;
		if (is_bare(watch, permit.until_ns))
			return permit.until_ns > watch->now_ns;
		row = permit.until_ns > watch->now_ns ? health_rows_find(watch, &permit, &former) : NULL;
		if (!row)
			return false;
		if (!watch->state.at.cell && health_phase_keep(watch, &after) != HEALTH_NO_ROOM)
			continue; /* its result counts in the newest table */
		if (watch->state.at.cell && is_probe(watch, &permit)) {
			if (!health_phase_end_probes(watch, result, 1, watch->now_ns))
				continue;
			health_row_give(limit, row, permit);
			return true;
		}
		if (!health_row_give(limit, row, permit))
			return false;
		if (counts && watch->state.at.cell && after.phase <= HEALTH_RAMP &&
		    health_counts(&after, permit.start_ns))
			health_phase_count(watch,
			                   (struct health_ends){result, 1, watch->now_ns, permit.stripe});
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
 * The outcome of another server's permit: it counts in the window of a closed key. A probe's outcome
 * decides the phase at the server that gave it (give()).
 */
static void count_foreign(struct watch *watch, const struct algo_call *call)
{
	struct health_permit permit;
	enum health_kept kept = HEALTH_CHANGED;

	while (kept == HEALTH_CHANGED) {
		health_phase_settle(watch, NULL);
		kept = watch->state.at.cell ? HEALTH_KEPT : health_phase_keep(watch, &watch->seen.health);
	}
	permit = health_permit_of(&watch->limit->health, call->until_ns, call->permit);
	if (kept == HEALTH_KEPT && !is_bare(watch, call->until_ns) &&
	    watch->seen.health.phase <= HEALTH_RAMP &&
	    health_counts(&watch->seen.health, permit.start_ns))
		health_phase_count(watch,
		                   (struct health_ends){result_of(watch->limit, call, permit.start_ns,
		                                                  watch->now_ns),
		                                        1, watch->now_ns, permit.stripe});
}

/* Gives back the newest permits. Those of a half-open phase are probes, which then nobody judges. */
__attribute__((noinline)) static void give_newest(struct watch *watch, uint64_t n,
                                                  struct algo_outcome *out)
{
	static const struct health_result ignored = {.ignored = true};
	struct health_list list;
	bool turned = true;

	do {
		const struct health_state *health = &watch->seen.health;
		unsigned probes;

		health_phase_settle(watch, &list);
		probes = (unsigned)u64_min(u64_min(n, watch->seen.own), health->flying);
		if (watch->state.at.cell && health->phase == HEALTH_HALF_OPEN && probes > 0)
			turned = health_phase_end_probes(watch, ignored, probes, watch->now_ns);
	} while (!turned);
	health_rows_give_newest(watch, &list, n);
	tell_seen(watch, out);
}

/* Gives back a permit, or without a name the newest ones. */
static void give_back(struct watch *watch, const struct algo_call *call, struct algo_outcome *out)
{
	const struct algo_limit *limit = watch->limit;
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
	permit = call->until_ns ? health_permit_of(&limit->health, call->until_ns, call->permit)
	                        : health_permit_of(&limit->health, watch->now_ns + watch->seen.last_ns, 0);
	given = call->cost > 0 && give(watch, permit, result_of(limit, call, permit.start_ns, watch->now_ns),
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
static void reset(struct watch *watch, struct algo_outcome *out)
{
	if (watch->told)
		watch->told->resets = true;
	for (;;) {
		struct health_state after = {.phase = HEALTH_CLOSED, .since_ns = watch->now_ns};
		struct health_tally tally;

		health_phase_settle(watch, NULL);
		if (!watch->state.at.cell &&
		    !(watch->has_former && health_phase_keep(watch, &watch->seen.health) != HEALTH_NO_ROOM))
			break;
		if (!watch->state.at.cell)
			continue;
		health_row_end_all(watch->limit, &watch->state.at);
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

static void force(struct watch *watch, const struct algo_call *call, struct algo_outcome *out)
{
	static const enum health_phase phases[] = {[WEIR_FORCE_OPEN] = HEALTH_FORCED_OPEN,
	                                           [WEIR_FORCE_CLOSED] = HEALTH_FORCED_CLOSED,
	                                           [WEIR_FORCE_AUTO] = HEALTH_CLOSED};
	struct health_state after;
	enum health_kept kept;

	do {
		health_rows_look(watch, NULL);
		if (call->force == WEIR_FORCE_AUTO && watch->seen.health.phase < HEALTH_FORCED_OPEN)
			break;
		after = (struct health_state){
		    .phase = phases[call->force],
		    .since_ns = call->force == WEIR_FORCE_AUTO ? watch->now_ns
		                                              : forced_until(call, watch->now_ns)};
		kept = health_phase_keep(watch, &after);
		if (kept == HEALTH_NO_ROOM) {
			algo_outcome_full(watch->limit, out);
			return;
		}
	} while (kept == HEALTH_CHANGED || !health_phase_change(watch, &after, ALGO_BY_FORCE));
	if (watch->told)
		watch->told->rejoins = call->force == WEIR_FORCE_AUTO;
	tell(watch, out);
}

/* Does what its fleet says. Not `allowed`: an operator has forced it, so the fleet has to wait. */
static void obey(struct watch *watch, const struct algo_call *call, struct algo_outcome *out)
{
	struct health_state after;
	enum health_kept kept;

	do {
		health_rows_look(watch, NULL);
		if (watch->told)
			*watch->told = (struct algo_notification){0};
		after = watch->seen.health;
		if (!health_follow_group(&watch->limit->health, &after, call, watch->now_ns))
			break;
		kept = health_phase_keep(watch, &after);
		if (kept == HEALTH_NO_ROOM) {
			algo_outcome_full(watch->limit, out);
			return;
		}
	} while (kept == HEALTH_CHANGED || !health_phase_change(watch, &after, ALGO_BY_GROUP));
	tell(watch, out);
	out->allowed = after.phase < HEALTH_FORCED_OPEN;
	if (watch->told)
		watch->told->since_ns = after.since_ns;
}

/* While it is calm, a call needs a few cells, and little else: it has no `watch`. */

/* Finds the key's row, under the limit that has taken over. False: there is none. */
static bool find_row(const struct holder *holder, const struct algo_limit *limit,
                     struct row_state *at)
{
	if (holder->store) {
		struct wide_state state;

		wide_find(memory_newest(holder->store, limit->identity), holder->key, &state);
		*at = state.at;
	} else {
		*at = holder->alone->at;
		at->head = row_head(at);
	}
	return at->cell && cell_tag(at->head) == at->row.tag;
}

static bool apply_calmly(const struct holder *holder, const struct algo_limit **by,
                         const struct algo_call *call, uint64_t now_ns, struct algo_outcome *out,
                         uint64_t *until_ns)
{
	const struct algo_limit *limit = algo_current(*by);
	bool takes = call->op == ALGO_ACQUIRE;
	struct row_state at;

	if (!(takes || call->op == ALGO_REPORT) || call->cost == 0 ||
	    !find_row(holder, limit, &at))
		return false;
	*by = limit;
	if (takes) {
		*until_ns = health_row_try(limit, &at, call->permit, now_ns, out);
		return *until_ns != 0;
	}
	*until_ns = 0;
	health_calm_outcome(out);
	out->remaining = out->reset_after_ns = 0;
	return health_row_try_report(limit, &at,
	                             &(struct health_report){call->until_ns, call->permit, call->latency_ns,
	                                                     call->outcome},
	                             now_ns);
}

__attribute__((noinline)) static uint64_t
apply_watched(const struct holder *holder, const struct algo_limit **by,
              const struct algo_call *call, uint64_t now_ns, struct algo_outcome *out)
{
	struct watch watch = {.holder = holder, .limit = *by, .told = call->notification, .now_ns = now_ns};
	uint64_t until_ns = 0;

	algo_outcome_open(out);
	switch (call->op) {
	case ALGO_ACQUIRE:
	case ALGO_PEEK:
		until_ns = acquire(&watch, call, out);
		break;
	case ALGO_REFUND:
	case ALGO_REPORT:
	case ALGO_COUNT:
	case ALGO_SETTLE:
		out->remaining = out->reset_after_ns = 0;
		give_back(&watch, call, out);
		break;
	case ALGO_RESET:
		reset(&watch, out);
		break;
	case ALGO_FORCE:
		force(&watch, call, out);
		break;
	default:
		obey(&watch, call, out);
		break;
	}
	*by = watch.limit;
	out->phase = (uint8_t)(watch.turned > 0 ? watch.turns[watch.turned - 1].to
	                                        : watch.seen.health.phase);
	out->turned = watch.turned;
	memcpy(out->turns, watch.turns, sizeof out->turns);
	return until_ns;
}

uint64_t health_apply(const struct holder *holder, const struct algo_limit **by,
                      const struct algo_call *call, uint64_t now_ns, struct algo_outcome *out)
{
	uint64_t until_ns;

	if (apply_calmly(holder, by, call, now_ns, out, &until_ns))
		return until_ns;
	return apply_watched(holder, by, call, now_ns, out);
}
