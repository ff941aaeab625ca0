/*
 * apply_success_ratio.c: carries out calls on a key of a limit by success ratio, which denies a
 * share of the requests (sheds load) if the backend accepts too few.
 *
 * The key's *header*, its cell in a table, retains its *record*, a row of further cells, which
 * change one by one (records/success_counts.h). A request reads the counts, gets its decision from
 * them (algo/outcomes/success_ratio.h), and is counted whether it passes or not. Two requests at
 * once may each be decided without the other; both are counted.
 *
 * If no request has passed for long, one is forced through. It must store itself as the last that
 * passed: one of several at once succeeds, and only that one passes. A request that passes by the
 * draw is stored, too, but any of several may be.
 *
 * If the limit gets a larger table, the key gets a new record there, which counts new requests. The
 * old record is read, too, until its counts are older than a window.
 */
#include "base/prng.h"
#include "records/success_counts.h"
#include "store/wide/reported_key.h"

/* A key as one call reads it. */
struct success_view {
	struct reported_key key;
	struct success_state state;
	struct cell passed; /* the newest record's cell of the last passed request */
};

static void read_success_view(struct success_view *view)
{
	struct reported_key *key = &view->key;

	reported_key_read(key);
	view->state = (struct success_state){.now_ns = key->now_ns};
	for (size_t i = 0; i < key->count; i++)
		success_record_advance(key->limit, &key->states[i].at.record, &view->state);
	view->passed = success_record_passed(&key->states[0].at.record);
	for (size_t i = 0; i < key->count; i++)
		success_record_read(key->limit, &key->states[i].at.record, &view->state);
}

/* Makes the header retain the record. */
static enum header_result make_header_fit(struct success_view *view)
{
	struct reported_key *key = &view->key;
	const struct record_state *at = &key->states[0].at;

	if (at->cell &&
	    success_record_header_fits(key->limit, at->header, at->record.tag, view->state.now_ns))
		return HEADER_STORED;
	return reported_key_store_header(
	    key, success_record_header(key->limit, at->record.tag, view->state.now_ns));
}

static void fill_decision(const struct success_view *view, struct algo_decision *out)
{
	out->reset_after_ns = success_ttl_ns(&view->key.limit->success, &view->state, view->key.now_ns);
}

/*
 * Decides on a request. It makes one draw, however often it is decided. `has_drawn`: a peek of the
 * same request has passed by its draw; but of several which were to be forced through, that passes
 * which is charged first.
 */
static enum success_verdict decide_request(const struct success_view *view, unsigned priority,
                                           bool has_drawn, uint64_t *draw)
{
	const struct success_params *params = &view->key.limit->success;
	uint64_t share = success_shed_share(params, &view->state);

	if (share > 0)
		share = success_shed_share_of(params, &view->state, share, priority);
	if (share > 0 && has_drawn && !success_is_starved(&view->state))
		return SUCCESS_DRAWN;
	if (share > 0 && *draw == 0)
		*draw = prng_next();
	return success_decide(&view->state, share, *draw);
}

/* Stores the request as the last that passed. Returns false if another request is by now. */
static bool set_last_passed(const struct success_view *view)
{
	return view->state.passed_ns < view->state.now_ns &&
	       success_record_set_passed(&view->key.states[0].at, view->passed, view->state.now_ns);
}

static void fill_peek(const struct success_view *view, struct algo_decision *out)
{
	fill_decision(view, out);
	if (reported_key_is_full(&view->key))
		algo_decision_table_full(view->key.limit, out);
}

/*
 * Decides on a request and counts it; a peek that draws only if it is denied. Returns the end of
 * its permit, or 0 if it is denied.
 */
static uint64_t acquire_success_permit(struct success_view *view, const struct algo_call *call,
                                       struct algo_decision *out)
{
	uint64_t draw = call->draw;
	bool has_drawn = call->has_drawn;
	enum success_verdict verdict;

	for (;;) {
		enum header_result stored;

		read_success_view(view);
		verdict = decide_request(view, call->priority, has_drawn, &draw);
		if (!algo_consumes(call) && verdict != SUCCESS_DENIED) {
			fill_peek(view, out);
			return 0;
		}
		stored = make_header_fit(view);
		if (stored == HEADER_NO_CAPACITY) {
			algo_decision_table_full(view->key.limit, out);
			return 0;
		}
		if (stored == HEADER_CHANGED)
			continue;
		/* If another request has been forced through meanwhile, decide again. */
		if (verdict != SUCCESS_FORCED || set_last_passed(view))
			break;
		has_drawn = false;
	}
	if (verdict == SUCCESS_DRAWN) /* it passes by the draw */
		set_last_passed(view);
	success_record_add(view->key.limit, &view->key.states[0].at, view->state.newest,
	                   (struct success_part){.requests = 1});
	if (call->priority > 0)
		success_record_demand(view->key.limit, &view->key.states[0].at, view->state.newest,
		                      call->priority);
	if (verdict == SUCCESS_DENIED)
		algo_decision_deny(out, WEIR_REASON_SHED, view->key.limit->retry_ns);
	success_count(&view->key.limit->success, &view->state, verdict);
	fill_decision(view, out);
	return out->allowed ? view->state.now_ns + view->key.limit->success.timeout_ns : 0;
}

/* Takes requests off a part in all records. Returns how many. */
static uint64_t refund_part(const struct success_view *view, uint64_t part, uint64_t n)
{
	const struct reported_key *key = &view->key;
	uint64_t refunded = 0;

	for (size_t i = 0; i < key->count && refunded < n; i++)
		if (key->states[i].at.cell)
			refunded += success_record_refund(key->limit, &key->states[i].at, part, n - refunded);
	return refunded;
}

/* Takes requests off the newest parts. */
static void refund_newest(const struct success_view *view, uint64_t n)
{
	for (unsigned back = 0; n > 0 && back < view->key.limit->success.parts; back++)
		n -= refund_part(view, view->state.newest - back, n);
}

/*
 * Counts a report in the part of now, like all reports of that time: its request may be long ago.
 */
static void count_report(struct success_view *view, enum weir_outcome outcome)
{
	bool accepted = outcome == WEIR_OUTCOME_SUCCESS;
	enum header_result stored;

	while ((stored = make_header_fit(view)) == HEADER_CHANGED)
		read_success_view(view);
	if (stored == HEADER_STORED)
		success_record_add(view->key.limit, &view->key.states[0].at, view->state.newest,
		                   (struct success_part){.accepts = accepted, .failed = !accepted});
}

/*
 * Releases the permit that ends at call->until_ns: counts its outcome, or without one takes its
 * request off. If a report counts elsewhere (SETTLE), changes nothing. Without a permit takes the
 * newest requests off.
 */
static void release_requests(struct success_view *view, const struct algo_call *call,
                             struct algo_decision *out)
{
	const struct success_params *params;
	uint64_t until_ns = call->until_ns, given_ns;
	bool names_permit = until_ns != 0;
	bool is_in_time = call->cost > 0 && until_ns > view->key.now_ns;
	bool counts = algo_op_counts_outcome(call->op) && call->outcome != WEIR_OUTCOME_IGNORED;

	read_success_view(view);
	params = &view->key.limit->success;
	given_ns = until_ns - params->timeout_ns;
	if (!names_permit)
		refund_newest(view, call->cost);
	else if (is_in_time && counts)
		count_report(view, call->outcome);
	else if (is_in_time && (call->op == ALGO_REFUND || call->op == ALGO_REPORT))
		refund_part(view, success_part_of(params, given_ns), 1);
	read_success_view(view);
	fill_decision(view, out);
	out->allowed = is_in_time || !names_permit;
}

static void reset_counts(struct success_view *view, struct algo_decision *out)
{
	const struct reported_key *key = &view->key;

	read_success_view(view);
	for (size_t i = 0; i < key->count; i++)
		if (key->states[i].at.cell)
			success_record_clear(key->limit, &key->states[i].at);
	read_success_view(view);
	fill_decision(view, out);
}

uint64_t success_apply(const struct call_target *target, const struct algo_call *call,
                       struct algo_decision *out)
{
	struct success_view view;

	reported_key_init(&view.key, target);
	if (algo_consumes(call) || algo_makes_draw(call))
		return acquire_success_permit(&view, call, out);
	if (call->op == ALGO_RESET) {
		reset_counts(&view, out);
	} else if (algo_op_releases(call->op)) {
		release_requests(&view, call, out);
	} else {
		read_success_view(&view);
		fill_peek(&view, out);
	}
	return 0;
}
