/*
 * call_accepts.c: the loop in which requests and their reports meet on how many were accepted.
 *
 * rows/accepts.h keeps it in cells, each of which changes by itself. A request looks, is decided on
 * by what it saw (algo/outcomes/success_ratio.h), and is counted, whether it passes or not. Two
 * that look at once may both be decided on without the other; counted are both. Of those that pass
 * only since none has for so long, one is noted as the last, and only that one passes. A larger
 * table takes over with a row of its own, so for the time of a window both are looked at, and the
 * newer one counts.
 */
#include "base/prng.h"
#include "rows/accepts.h"
#include "store/wide/held.h"

/* A key as one call reads it. */
struct watch {
	struct held held;
	struct accepts_state seen;
	struct cell passed; /* as the newest row has it */
};

static void look(struct watch *watch)
{
	struct held *held = &watch->held;

	held_find(held);
	watch->seen = (struct accepts_state){.now_ns = held->now_ns};
	for (size_t i = 0; i < held->count; i++)
		accepts_row_time(held->limit, &held->rows[i].at.row, &watch->seen);
	watch->passed = accepts_row_passed(&held->rows[0].at.row);
	for (size_t i = 0; i < held->count; i++)
		accepts_row_look(held->limit, &held->rows[i].at.row, &watch->seen);
}

/* Makes the head such that the row stays the key's. */
static enum held_kept keep(struct watch *watch)
{
	struct held *held = &watch->held;
	const struct row_state *at = &held->rows[0].at;

	if (at->cell && accepts_row_fits(held->limit, at->head, at->row.tag, watch->seen.now_ns))
		return HELD_KEPT;
	return held_store(held, accepts_row_head(held->limit, at->row.tag, watch->seen.now_ns));
}

static void explain(const struct watch *watch, struct algo_decision *out)
{
	out->remaining = out->allowed ? ALGO_COUNT_MAX : 0;
	out->reset_after_ns =
	    accepts_ttl_ns(&watch->held.limit->accepts, &watch->seen, watch->held.now_ns);
}

/* One draw for a request, however often it has to ask. */
static enum accepts_verdict ask(const struct watch *watch, unsigned priority, uint64_t *draw)
{
	const struct accepts_params *params = &watch->held.limit->accepts;
	uint64_t share = accepts_share(params, &watch->seen);

	if (share > 0)
		share = accepts_lost(params, &watch->seen, share, priority);
	if (share > 0 && *draw == 0)
		*draw = prng_next();
	return accepts_ask(&watch->seen, share, *draw);
}

/* Notes it as the last that passed. Returns false if another request is by now. */
static bool note(const struct watch *watch)
{
	return watch->seen.passed_ns < watch->seen.now_ns &&
	       accepts_row_pass(&watch->held.rows[0].at, watch->passed, watch->seen.now_ns);
}

static void peek(struct watch *watch, struct algo_decision *out)
{
	look(watch);
	explain(watch, out);
	if (held_is_full(&watch->held))
		algo_decision_table_full(watch->held.limit, out);
}

static uint64_t acquire(struct watch *watch, const struct algo_call *call,
                        struct algo_decision *out)
{
	uint64_t draw = call->draw;
	enum accepts_verdict verdict;

	for (;;) {
		enum held_kept kept;

		look(watch);
		kept = keep(watch);
		if (kept == HELD_NO_ROOM) {
			algo_decision_table_full(watch->held.limit, out);
			return 0;
		}
		if (kept == HELD_CHANGED)
			continue;
		verdict = ask(watch, call->priority, &draw);
		if (verdict != ACCEPTS_FORCED || note(watch))
			break;
	}
	if (verdict == ACCEPTS_DRAWN)
		note(watch);
	accepts_row_add(watch->held.limit, &watch->held.rows[0].at, watch->seen.newest,
	                (struct accepts_part){.requests = 1});
	if (call->priority > 0)
		accepts_row_demand(watch->held.limit, &watch->held.rows[0].at, watch->seen.newest,
		                   call->priority);
	if (verdict == ACCEPTS_DENIED)
		algo_decision_deny(out, WEIR_REASON_SHED, watch->held.limit->retry_ns);
	accepts_count(&watch->held.limit->accepts, &watch->seen, verdict);
	explain(watch, out);
	return out->allowed ? watch->seen.now_ns + watch->held.limit->accepts.timeout_ns : 0;
}

/* Takes requests back from a part; returns how many. */
static uint64_t take_back(const struct watch *watch, uint64_t part, uint64_t n)
{
	const struct held *held = &watch->held;
	uint64_t taken = 0;

	for (size_t i = 0; i < held->count && taken < n; i++)
		if (held->rows[i].at.cell)
			taken += accepts_row_take(held->limit, &held->rows[i].at, part, n - taken);
	return taken;
}

/* And from all parts, the newest first. */
static void take_newest(const struct watch *watch, uint64_t n)
{
	for (unsigned back = 0; n > 0 && back < watch->held.limit->accepts.parts; back++)
		n -= take_back(watch, watch->seen.newest - back, n);
}

/* A report counts when it comes, with what others report then: its request may be long ago. */
static void count(struct watch *watch, enum weir_outcome outcome)
{
	bool accepted = outcome == WEIR_OUTCOME_SUCCESS;
	enum held_kept kept;

	while ((kept = keep(watch)) == HELD_CHANGED)
		look(watch);
	if (kept == HELD_KEPT)
		accepts_row_add(watch->held.limit, &watch->held.rows[0].at, watch->seen.newest,
		                (struct accepts_part){.accepts = accepted, .failed = !accepted});
}

/* Gives back a permit, or without a name the newest requests. */
static void give_back(struct watch *watch, const struct algo_call *call, struct algo_decision *out)
{
	const struct accepts_params *params;
	uint64_t until_ns = call->until_ns;
	bool held = call->cost > 0 && until_ns > watch->held.now_ns;
	bool counts = algo_op_counts_outcome(call->op) && call->outcome != WEIR_OUTCOME_IGNORED;

	look(watch);
	params = &watch->held.limit->accepts;
	if (until_ns == 0)
		take_newest(watch, call->cost);
	else if (held && counts)
		count(watch, call->outcome);
	else if (held && (call->op == ALGO_REFUND || call->op == ALGO_REPORT))
		take_back(watch, accepts_part_of(params, until_ns - params->timeout_ns), 1);
	look(watch);
	explain(watch, out);
	out->allowed = held || until_ns == 0;
}

static void reset(struct watch *watch, struct algo_decision *out)
{
	const struct held *held = &watch->held;

	look(watch);
	for (size_t i = 0; i < held->count; i++)
		if (held->rows[i].at.cell)
			accepts_row_clear(held->limit, &held->rows[i].at);
	look(watch);
	explain(watch, out);
}

uint64_t accepts_apply(const struct holder *holder, const struct algo_call *call,
                       struct algo_decision *out)
{
	struct watch watch;

	held_begin(&watch.held, holder);
	if (algo_consumes(call))
		return acquire(&watch, call, out);
	if (call->op == ALGO_RESET)
		reset(&watch, out);
	else if (algo_op_releases(call->op))
		give_back(&watch, call, out);
	else
		peek(&watch, out);
	return 0;
}
