/*
 * call_accepts.c: the loop in which requests and their reports meet on how many were accepted.
 *
 * rows/accepts.h keeps it in cells, each of which changes by itself. A request looks, is decided on
 * by what it saw (algo/outcomes/success_ratio.h), and is counted, whether it passes or not. Two that look at once
 * may both be decided on without the other; counted are both. Of those that pass only since none has
 * for so long, one is noted as the last, and only that one passes. A larger table takes over with a
 * row of its own, so for the time of a window both are looked at, and the newer one counts.
 */
#include "base/draw.h"
#include "rows/accepts.h"
#include "store/wide/wide.h"

/* A key as one call sees it. */
struct watch {
	const struct holder *holder;
	const struct algo_limit *limit;
	uint64_t now_ns;
	struct wide_state state;
	struct accepts_state seen;
	struct cell passed; /* as the newest row has it */
};

/* The next of the key's rows: that of its newest table, then of former ones. False: no more. */
static bool next_row(const struct watch *watch, struct wide_state *row)
{
	struct wide_table *former = row->wide ? row->wide->former : NULL;

	if (!former)
		return false;
	wide_find(former, watch->holder->key, row);
	return true;
}

static void look(struct watch *watch)
{
	const struct holder *holder = watch->holder;
	struct wide_state row;

	watch->limit = algo_current(watch->limit);
	if (holder->store) {
		wide_find(memory_newest(holder->store, watch->limit->identity), holder->key,
		          &watch->state);
	} else {
		watch->state = *holder->alone;
		watch->state.at.head = row_head(&holder->alone->at);
	}
	watch->seen = (struct accepts_state){.now_ns = watch->now_ns};
	row = watch->state;
	do
		accepts_row_time(watch->limit, &row.at.row, &watch->seen);
	while (next_row(watch, &row));
	watch->passed = accepts_row_passed(&watch->state.at.row);
	row = watch->state;
	do
		accepts_row_look(watch->limit, &row.at.row, &watch->seen);
	while (next_row(watch, &row));
}

enum kept { KEPT, CHANGED, NO_ROOM };

/* Makes the head such that the row stays the key's. */
static enum kept keep(struct watch *watch)
{
	struct row_step on = {.limit = watch->limit, .now_ns = watch->now_ns};
	struct wide_state *state = &watch->state;
	uint32_t tag = state->at.row.tag;

	if (state->at.cell &&
	    accepts_row_fits(watch->limit, state->at.head, tag, watch->seen.now_ns))
		return KEPT;
	if (wide_store_head(state, &on, accepts_row_head(watch->limit, tag, watch->seen.now_ns)))
		return CHANGED;
	return wide_is_full(state, watch->now_ns) ? NO_ROOM : CHANGED;
}

static void explain(const struct watch *watch, struct algo_outcome *out)
{
	out->remaining = out->allowed ? ALGO_COUNT_MAX : 0;
	out->reset_after_ns = accepts_ahead_ns(&watch->limit->accepts, &watch->seen, watch->now_ns);
}

/* One draw for a request, however often it has to ask. */
static enum accepts_verdict ask(const struct watch *watch, unsigned priority, uint64_t *draw)
{
	const struct accepts_params *params = &watch->limit->accepts;
	uint64_t share = accepts_share(params, &watch->seen);

	if (share > 0)
		share = accepts_lost(params, &watch->seen, share, priority);
	if (share > 0 && *draw == 0)
		*draw = draw_next();
	return accepts_ask(&watch->seen, share, *draw);
}

/* Notes it as the last that passed. False: another request is by now. */
static bool note(const struct watch *watch)
{
	return watch->seen.passed_ns < watch->seen.now_ns &&
	       accepts_row_pass(&watch->state.at, watch->passed, watch->seen.now_ns);
}

static void peek(struct watch *watch, struct algo_outcome *out)
{
	look(watch);
	explain(watch, out);
	if (wide_is_full(&watch->state, watch->now_ns))
		algo_outcome_full(watch->limit, out);
}

static uint64_t acquire(struct watch *watch, const struct algo_call *call, struct algo_outcome *out)
{
	uint64_t draw = call->draw;
	enum accepts_verdict verdict;

	for (;;) {
		enum kept kept;

		look(watch);
		kept = keep(watch);
		if (kept == NO_ROOM) {
			algo_outcome_full(watch->limit, out);
			return 0;
		}
		if (kept == CHANGED)
			continue;
		verdict = ask(watch, call->priority, &draw);
		if (verdict != ACCEPTS_FORCED || note(watch))
			break;
	}
	if (verdict == ACCEPTS_DRAWN)
		note(watch);
	accepts_row_add(watch->limit, &watch->state.at, watch->seen.newest,
	                (struct accepts_part){.requests = 1});
	if (call->priority > 0)
		accepts_row_demand(watch->limit, &watch->state.at, watch->seen.newest, call->priority);
	if (verdict == ACCEPTS_DENIED)
		algo_outcome_deny(out, WEIR_REASON_SHED, watch->limit->retry_ns);
	accepts_count(&watch->limit->accepts, &watch->seen, verdict);
	explain(watch, out);
	return out->allowed ? watch->seen.now_ns + watch->limit->accepts.timeout_ns : 0;
}

/* Takes requests back from a part; returns how many. */
static uint64_t take_back(const struct watch *watch, uint64_t part, uint64_t n)
{
	struct wide_state row = watch->state;
	uint64_t taken = 0;

	do
		if (row.at.cell)
			taken += accepts_row_take(watch->limit, &row.at, part, n - taken);
	while (taken < n && next_row(watch, &row));
	return taken;
}

/* And from all parts, the newest first. */
static void take_newest(const struct watch *watch, uint64_t n)
{
	for (unsigned back = 0; n > 0 && back < watch->limit->accepts.parts; back++)
		n -= take_back(watch, watch->seen.newest - back, n);
}

/* A report counts when it comes, with what others report then: its request may be long ago. */
static void count(struct watch *watch, enum weir_outcome outcome)
{
	bool accepted = outcome == WEIR_OUTCOME_SUCCESS;
	enum kept kept;

	while ((kept = keep(watch)) == CHANGED)
		look(watch);
	if (kept == KEPT)
		accepts_row_add(watch->limit, &watch->state.at, watch->seen.newest,
		                (struct accepts_part){.accepts = accepted, .failed = !accepted});
}

/* Gives back a permit, or without a name the newest requests. */
static void give_back(struct watch *watch, const struct algo_call *call, struct algo_outcome *out)
{
	const struct accepts_params *params;
	uint64_t until_ns = call->until_ns;
	bool held = call->cost > 0 && until_ns > watch->now_ns;
	bool counts = algo_op_counts(call->op) && call->outcome != WEIR_OUTCOME_IGNORED;

	look(watch);
	params = &watch->limit->accepts;
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

static void reset(struct watch *watch, struct algo_outcome *out)
{
	struct wide_state row;

	look(watch);
	row = watch->state;
	do
		if (row.at.cell)
			accepts_row_clear(watch->limit, &row.at);
	while (next_row(watch, &row));
	look(watch);
	explain(watch, out);
}

uint64_t accepts_apply(const struct holder *holder, const struct algo_limit **by,
                       const struct algo_call *call, uint64_t now_ns, struct algo_outcome *out)
{
	struct watch watch = {.holder = holder, .limit = *by, .now_ns = now_ns};
	uint64_t until_ns = 0;

	algo_outcome_open(out);
	if (call->op == ALGO_RESET)
		reset(&watch, out);
	else if (algo_op_gives(call->op))
		give_back(&watch, call, out);
	else if (call->op == ALGO_ACQUIRE && call->cost > 0)
		until_ns = acquire(&watch, call, out);
	else
		peek(&watch, out);
	*by = watch.limit;
	return until_ns;
}
