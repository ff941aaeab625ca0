/*
 * steps.h: carries out calls on one header and record step by step, in virtual time, to their end
 * or to a crash in between. A decision made at once must equal that of the steps.
 */
#ifndef TEST_ALGO_STEPS_H
#define TEST_ALGO_STEPS_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "records/log.h"
#include "records/slots.h"

#define NOW   (UINT64_C(1700000000) * NS_PER_S)
#define TAG   7
#define CELLS ALGO_WIDTH_MOST

struct state {
	struct algo_limit limit;
	struct algo_decision out;
	struct cell header, record[CELLS];
	unsigned width;    /* of the record: what the limits so far have needed at most */
	uint64_t until_ns; /* that the last call left */
};

static struct state state;
static unsigned at_once, opened, appended; /* decisions that needed no step */

static void begin(enum weir_algorithm algorithm, uint64_t count, uint64_t period_ns, uint32_t slots)
{
	struct weir_limit_options options = {.algorithm = algorithm,
	                                     .rate = {count, period_ns, WEIR_UNIT_NANOSECOND},
	                                     .slots = algorithm == WEIR_ALGORITHM_SLIDING_WINDOW ? slots
	                                                                                         : 0};

	memset(&state, 0, sizeof state);
	assert_int_equal(algo_limit_init(&state.limit, &options, NULL), WEIR_OK);
	state.width = state.limit.width;
}

static inline void again(enum weir_algorithm algorithm, uint64_t count, uint64_t period_ns,
                         uint32_t slots)
{
	struct algo_limit before = state.limit, *next = &state.limit;
	struct weir_limit_options options = {.algorithm = algorithm,
	                                     .rate = {count, period_ns, WEIR_UNIT_NANOSECOND},
	                                     .slots = algorithm == WEIR_ALGORITHM_SLIDING_WINDOW ? slots
	                                                                                         : 0};

	assert_int_equal(algo_limit_init(next, &options, NULL), WEIR_OK);
	algo_hand_over(&before, next);
	state.width = (unsigned)u64_max(state.width, next->width);
}

/* The decision at once agrees with the step's, and with what it wants. */
static void agree_at_once(const struct algo_call *call, uint64_t now_ns,
                          const struct record_change *change)
{
	struct algo_decision out;
	struct cell after;

	if (call->op != ALGO_ACQUIRE || !state.limit.header_has_sum ||
	    !slots_try_acquire(&state.limit, state.header, now_ns, call->cost, &out, &after))
		return;
	assert_true(state.out.allowed && out.allowed);
	assert_int_equal(out.remaining, state.out.remaining);
	assert_int_equal(out.reset_after_ns, state.out.reset_after_ns);
	assert_true(change->want == RECORD_WANT_HEADER && change->is_final);
	assert_memory_equal(&after, &change->header, sizeof after);
	at_once++;
}

static void same_outcome(const struct algo_decision *out)
{
	assert_int_equal(out->allowed, state.out.allowed);
	assert_int_equal(out->reason, state.out.reason);
	assert_int_equal(out->remaining, state.out.remaining);
	assert_int_equal(out->retry_after_ns, state.out.retry_after_ns);
	assert_int_equal(out->reset_after_ns, state.out.reset_after_ns);
	assert_int_equal(out->wait_ns, state.out.wait_ns);
}

static void same_change(const struct record_change *change, const struct record_change *step)
{
	assert_int_equal(change->want, step->want);
	assert_false(step->voids_record_first);
	if (step->want == RECORD_WANT_CELL) {
		assert_int_equal(change->index, step->index);
		assert_memory_equal(&change->before, &step->before, sizeof change->before);
		assert_memory_equal(&change->after, &step->after, sizeof change->after);
	}
	if (step->want == RECORD_WANT_HEADER || step->then_header)
		assert_memory_equal(&change->header, &step->header, sizeof change->header);
}

/* The same of what goes to another slot; `opening`: whether its header was just sealed. */
static void agree_to_open(const struct record_step *on, const struct record_change *step,
                          bool *opening)
{
	struct record_change change = {.want = RECORD_WANT_HEADER};
	struct algo_decision out;

	if (on->call->op != ALGO_ACQUIRE || !state.limit.header_has_sum || on->call->cost == 0)
		return;
	if (!*opening) {
		*opening = slots_seal(on, &change);
		if (*opening)
			same_change(&change, step);
		return;
	}
	slots_open(on, &out, &change);
	same_change(&change, step);
	if (step->want == RECORD_WANT_HEADER) {
		assert_true(step->is_final);
		same_outcome(&out);
		opened++;
	}
}

static void agree_to_append(const struct record_step *on, const struct record_change *step)
{
	struct algo_decision out;
	struct log_append append;

	if (on->call->op != ALGO_ACQUIRE || state.limit.record != ALGO_RECORD_LOG ||
	    !log_is_narrow(on->record->width) || !log_try_acquire(on, on->call->cost, &out, &append))
		return;
	same_outcome(&out);
	assert_int_equal(append.until_ns,
	                 (int64_t)on->now_ns +
	                     cell_ahead_ns(out.allowed ? append.header : state.header, on->now_ns));
	if (out.allowed) {
		struct record_change change = {.want = append.entry_is_stored ? RECORD_WANT_HEADER
		                                                              : RECORD_WANT_CELL,
		                               .header = append.header,
		                               .index = append.index,
		                               .before = append.before,
		                               .after = append.entry};

		same_change(&change, step);
		assert_true(step->is_final && step->then_header != append.entry_is_stored);
	} else {
		assert_int_equal(step->want, RECORD_WANT_NOTHING);
	}
	appended++;
}

/* Runs a call in a process that stalls after `wants` changes. */
static bool go_on(struct record_step *on, struct algo_call *call, unsigned wants)
{
	const struct record record = {state.record, state.width, TAG, true};
	uint64_t now_ns = on->now_ns;
	bool opening = false;

	on->limit = &state.limit;
	on->call = call;
	on->record = &record;

	for (;; wants--) {
		struct record_change change;

		if (cell_bits(on->header) != cell_bits(state.header))
			on->progress.live_count = 0;
		on->header = state.header;
		record_decide(on, &state.out, &change);
		if (on->progress.live_count > 0 &&
		    change.want == RECORD_WANT_AGAIN) { /* it has come to the way's end */
			on->progress.live_count = 0;
			record_decide(on, &state.out, &change);
		}
		on->progress.live_count = 0;
		agree_at_once(call, now_ns, &change);
		agree_to_open(on, &change, &opening);
		agree_to_append(on, &change);
		if (change.want == RECORD_WANT_NOTHING)
			return true;
		if (wants == 0)
			return false;
		if (change.want == RECORD_WANT_CELL) {
			assert_true(change.index < record.width);
			assert_memory_equal(&state.record[change.index], &change.before, sizeof change.before);
			state.record[change.index] = change.after;
			if (change.then_header && --wants == 0)
				return false;
		}
		if (change.want == RECORD_WANT_HEADER || !change.then_header) {
			call->cost -= change.refunded;
			on->progress = change.progress;
			if (change.gap_name_ns != 0)
				on->gap_name_ns = change.gap_name_ns;
		}
		if (change.want == RECORD_WANT_CELL && !change.then_header)
			continue;
		if (change.voids_record_first)
			for (unsigned i = 0; i < record.width; i++)
				if (cell_tag(state.record[i]) == TAG)
					state.record[i] = slots_void(state.record[i]);
		state.header = change.header;
		state.until_ns = now_ns + (uint64_t)cell_ahead_ns(change.header, now_ns);
		if (change.is_final)
			return true;
	}
}

/* The same of a call that is not taken up again: the process has died. */
static bool call_until(enum algo_op op, uint64_t cost, uint64_t until_ns, uint64_t now_ns,
                       unsigned wants)
{
	struct algo_call call = {op, cost, until_ns};
	struct record_step on = {.now_ns = now_ns};

	return go_on(&on, &call, wants);
}

static bool call(enum algo_op op, uint64_t cost, uint64_t now_ns)
{
	assert_true(call_until(op, cost, 0, now_ns, 100000));
	return state.out.allowed;
}

static inline unsigned admitted(unsigned n, uint64_t now_ns)
{
	unsigned allowed = 0;

	while (n-- > 0)
		allowed += call(ALGO_ACQUIRE, 1, now_ns);
	return allowed;
}

#endif
