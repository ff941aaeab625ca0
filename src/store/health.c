/*
 * health.c: the loop in which permits and their reports meet on a key's health.
 *
 * rows/health.h keeps it in cells, each of which changes by itself; what each change is to be,
 * algo/health.h says. An acquire takes a flight, then, in half-open, a probe of the phase; a report
 * gives back the probe, then the flight, and counts the outcome; whoever finds that the window
 * says so opens it, by one swap of the phase. docs/design/health.md tells why the order
 * is this, and what a process leaves that dies in between.
 */
#include "base/draw.h"
#include "rows/health.h"
#include "store/wide.h"

/* A key as one call sees it. */
struct watch {
	const struct holder *holder;
	const struct algo_limit *limit;
	uint64_t now_ns;
	struct wide_state state;
	struct health_look seen;
	uint64_t lost_ns; /* when permits were lost that this call has found; 0: it has found none */
};

/* What the key's former tables say of its phase, where the newest says nothing. */
static void look_back(struct watch *watch)
{
	for (struct wide_table *wide = watch->state.wide->former; wide; wide = wide->former) {
		struct wide_state former;
		struct health_look look;

		wide_find(wide, watch->holder->key, &former);
		if (!former.at.cell)
			continue;
		health_row_phase(watch->limit, watch->now_ns, &former.at.row, &look);
		watch->seen.health = look.health;
		return;
	}
}

static void look(struct watch *watch)
{
	const struct holder *holder = watch->holder;

	watch->limit = algo_current(watch->limit);
	if (holder->store) {
		wide_find(memory_newest(holder->store, watch->limit->identity), holder->key,
		          &watch->state);
	} else {
		watch->state = *holder->alone;
		watch->state.at.head = row_head(&holder->alone->at);
	}
	health_row_look(watch->limit, watch->now_ns, &watch->state.at.row, &watch->seen);
	if (watch->state.wide && watch->state.wide->former && !watch->state.at.cell)
		look_back(watch);
}

enum kept { KEPT, CHANGED, NO_ROOM };

/* Makes the head such that the row stays the key's, in that phase. */
static enum kept keep(struct watch *watch, const struct health_state *health)
{
	struct row_step on = {.limit = watch->limit, .now_ns = watch->now_ns};
	struct wide_state *state = &watch->state;
	bool is_new = !state->at.cell;
	struct cell head;

	if (!is_new && health_row_fits(watch->limit, state->at.head, state->at.row.tag, health,
	                               watch->now_ns))
		return KEPT;
	head = health_row_head(watch->limit, state->at.row.tag, health, watch->now_ns);
	if (!wide_store_head(state, &on, head))
		return wide_is_full(state, watch->now_ns) ? NO_ROOM : CHANGED;
	if (is_new && watch->seen.health.since_ns > 0) { /* of a former table */
		struct health_state former = watch->seen.health;

		look(watch);
		if (state->at.cell && watch->seen.health.since_ns == 0)
			health_row_turn(&state->at, &watch->seen, &former);
	}
	return CHANGED;
}

/* Puts the phase that was seen into another one. False: it has changed. */
static bool turn(struct watch *watch, const struct health_state *after)
{
	if (!health_row_turn(&watch->state.at, &watch->seen, after))
		return false;
	keep(watch, after); /* else the next call does */
	return true;
}

/* Opens it, if the window says so. Whether it did; what others do meanwhile, they judge. */
static bool judge(struct watch *watch)
{
	struct health_state after = watch->seen.health;
	struct health_tally tally;

	if (after.phase > HEALTH_RAMP)
		return false;
	health_row_tally(watch->limit, &watch->state.at.row, &watch->seen, watch->now_ns, &tally);
	if (!health_trips(&watch->limit->health, &tally))
		return false;
	health_open(&after, watch->now_ns);
	turn(watch, &after);
	return true;
}

/* In the phase that was seen, which is closed. */
static void count(struct watch *watch, struct health_ends ends)
{
	if (ends.result.ignored)
		return;
	health_row_count(watch->limit, &watch->state.at, &watch->seen, &ends, watch->now_ns);
	look(watch);
	judge(watch);
}

/* A permit that nobody has reported in its time. */
static struct health_result timed_out(const struct watch *watch)
{
	return health_result_of(&watch->limit->health, WEIR_OUTCOME_TIMEOUT,
	                        watch->limit->health.timeout_ns);
}

/*
 * Before anything else: what permits that nobody has reported say. In half-open, probes that fly
 * by the phase but not by the row are lost, however that came.
 */
static void look_settled(struct watch *watch)
{
	for (;;) {
		const struct health_params *params;
		struct health_state after;
		uint64_t n, until_ns;

		look(watch);
		params = &watch->limit->health;
		after = watch->seen.health;
		if (watch->seen.overdue) {
			n = health_row_end(&watch->state.at, watch->seen.overdue, watch->now_ns, &until_ns);
			if (n == 0 || !health_counts(&after, until_ns - params->timeout_ns))
				continue;
			if (after.phase == HEALTH_HALF_OPEN)
				watch->lost_ns = u64_min(watch->lost_ns ? watch->lost_ns : watch->now_ns, until_ns);
			else
				count(watch, (struct health_ends){timed_out(watch), n,
				                                  u64_min(until_ns, watch->now_ns)});
		} else if (after.phase == HEALTH_HALF_OPEN && after.flying > watch->seen.own) {
			health_tell(params, &after, timed_out(watch),
			            after.flying - (unsigned)watch->seen.own,
			            watch->lost_ns ? watch->lost_ns : watch->now_ns);
			turn(watch, &after);
		} else if (!params->finished_only || !watch->state.at.cell || !judge(watch)) {
			return; /* else parts have finished since the last report */
		}
	}
}

static void explain(const struct watch *watch, const struct health_state *health, uint64_t own_ns,
                    struct algo_outcome *out)
{
	const struct health_params *params = &watch->limit->health;
	struct health_tally tally;
	uint64_t ahead_ns = health_row_tally(watch->limit, &watch->state.at.row, &watch->seen,
	                                     watch->now_ns, &tally);

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
		count(watch, (struct health_ends){{.failed = true}, 1, watch->now_ns});
	else if (takes)
		keep(watch, &watch->seen.health);
}

/* A permit for what `health` has granted. False: look again; `out` may be a denial for want of room. */
static bool take(struct watch *watch, const struct health_state *health, struct algo_outcome *out,
                 uint64_t *until_ns)
{
	const struct algo_limit *limit = watch->limit;
	struct health_permit permit = {.start_ns = health_start(health, watch->now_ns)};
	enum kept kept = keep(watch, &watch->seen.health);
	bool turns = health->phase == HEALTH_HALF_OPEN;

	if (kept == NO_ROOM) {
		algo_outcome_full(limit, out);
		*until_ns = 0;
		return true;
	}
	permit.until_ns = permit.start_ns + limit->health.timeout_ns;
	if (kept == CHANGED ||
	    health_row_take(limit, &watch->state.at, permit, watch->now_ns) != HEALTH_TAKEN)
		return false;
	if (turns && !turn(watch, health)) {
		health_row_give(limit, &watch->state.at, permit);
		return false;
	}
	*until_ns = permit.until_ns;
	return true;
}

static uint64_t acquire(struct watch *watch, const struct algo_call *call, struct algo_outcome *out)
{
	bool takes = call->op == ALGO_ACQUIRE && call->cost > 0;
	uint64_t draw = call->draw, until_ns = 0;

	for (;;) {
		struct health_state health;

		look_settled(watch);
		health = watch->seen.health;
		if (takes && draw == 0 && health_draws(&health))
			draw = draw_next();
		if (!health_ask(watch->limit, &health, watch->now_ns, takes ? &draw : NULL,
		                watch->seen.in_flight, out)) {
			refuse(watch, takes, out);
			return 0;
		}
		if (!takes) {
			if (wide_is_full(&watch->state, watch->now_ns))
				algo_outcome_full(watch->limit, out);
			else
				explain(watch, &watch->seen.health, 0, out);
			return 0;
		}
		if (take(watch, &health, out, &until_ns)) {
			if (until_ns > 0)
				explain(watch, &health, until_ns - watch->now_ns, out);
			return until_ns;
		}
	}
}

/* How the key stands once a permit is given back. */
static void tell(struct watch *watch, struct algo_outcome *out)
{
	look_settled(watch);
	out->remaining = health_room(&watch->limit->health, &watch->seen.health, watch->seen.in_flight);
	explain(watch, &watch->seen.health, 0, out);
}

/* Whether the permit was in flight. */
static bool give(struct watch *watch, struct health_permit permit, struct health_result result)
{
	const struct algo_limit *limit = watch->limit;

	for (;;) {
		struct health_state after;

		look_settled(watch);
		after = watch->seen.health;
		if (!watch->state.at.cell || permit.until_ns <= watch->now_ns ||
		    !health_row_has(limit, &watch->state.at, permit))
			return false;
		if (after.phase == HEALTH_HALF_OPEN && health_counts(&after, permit.start_ns)) {
			health_tell(&limit->health, &after, result, 1, watch->now_ns);
			if (!turn(watch, &after))
				continue;
			health_row_give(limit, &watch->state.at, permit);
			return true;
		}
		if (!health_row_give(limit, &watch->state.at, permit))
			return false;
		if (health_counts(&after, permit.start_ns))
			count(watch, (struct health_ends){result, 1, watch->now_ns});
		return true;
	}
}

/* How its request ended. */
static struct health_result result_of(const struct watch *watch, const struct algo_call *call,
                                      uint64_t start_ns)
{
	uint64_t latency_ns = call->latency_ns ? call->latency_ns : sat_sub(watch->now_ns, start_ns);

	if (!call->reports)
		return (struct health_result){.ignored = true};
	return health_result_of(&watch->limit->health, call->outcome, latency_ns);
}

/* Of a permit, or without a name of the newest ones. */
static void give_back(struct watch *watch, const struct algo_call *call, struct algo_outcome *out)
{
	uint64_t until_ns = call->until_ns;
	bool given = call->cost > 0;

	for (uint64_t n = 0; given && n < (until_ns ? 1 : call->cost); n++) {
		struct health_permit permit;

		look_settled(watch);
		permit = health_permit_of(&watch->limit->health,
		                          until_ns ? until_ns : watch->now_ns + watch->seen.last_ns);
		given = give(watch, permit, result_of(watch, call, permit.start_ns));
	}
	tell(watch, out);
	out->allowed = given || until_ns == 0;
}

/* Its window is forgotten with the phase; permits of before are in flight no more. */
static void reset(struct watch *watch, struct algo_outcome *out)
{
	for (;;) {
		struct health_state after = {.phase = HEALTH_CLOSED, .since_ns = watch->now_ns};
		struct health_tally tally;
		uint64_t until_ns;

		look_settled(watch);
		if (!watch->state.at.cell)
			break;
		for (unsigned i = 0; i < health_flight_cells(&watch->limit->health); i++)
			health_row_end(&watch->state.at, 1 + i, watch->now_ns, &until_ns);
		after.since_ns = u64_max(after.since_ns, watch->seen.health.since_ns + 1);
		if (watch->seen.health.phase >= HEALTH_FORCED_OPEN ||
		    (watch->seen.health.phase == HEALTH_CLOSED &&
		     health_row_tally(watch->limit, &watch->state.at.row, &watch->seen, watch->now_ns,
		                      &tally) == 0) ||
		    turn(watch, &after))
			break;
	}
	tell(watch, out);
}

static void force(struct watch *watch, const struct algo_call *call, struct algo_outcome *out)
{
	static const enum health_phase phases[] = {[ALGO_FORCE_OPEN] = HEALTH_FORCED_OPEN,
	                                           [ALGO_FORCE_CLOSED] = HEALTH_FORCED_CLOSED,
	                                           [ALGO_FORCE_END] = HEALTH_CLOSED};
	struct health_state after;
	enum kept kept;

	do {
		look(watch);
		after = (struct health_state){
		    .phase = phases[call->force],
		    .since_ns = call->force == ALGO_FORCE_END ? watch->now_ns
		                : call->until_ns              ? call->until_ns
		                                              : HEALTH_FOR_EVER};
		kept = keep(watch, &after);
		if (kept == NO_ROOM) {
			algo_outcome_full(watch->limit, out);
			return;
		}
	} while (kept == CHANGED || !turn(watch, &after));
	tell(watch, out);
}

uint64_t health_apply(const struct holder *holder, const struct algo_limit **by,
                      const struct algo_call *call, uint64_t now_ns, struct algo_outcome *out)
{
	struct watch watch = {.holder = holder, .limit = *by, .now_ns = now_ns};
	uint64_t until_ns = 0;

	algo_outcome_open(out);
	switch (call->op) {
	case ALGO_ACQUIRE:
	case ALGO_PEEK:
		until_ns = acquire(&watch, call, out);
		break;
	case ALGO_REFUND:
		give_back(&watch, call, out);
		break;
	case ALGO_RESET:
		if (call->force != ALGO_FORCE_NONE)
			force(&watch, call, out);
		else
			reset(&watch, out);
		break;
	}
	*by = watch.limit;
	return until_ns;
}
