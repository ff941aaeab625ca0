/*
 * apply_step.h: applies a step to the state in a cell that other threads may be changing. It finds
 * the cell, computes the step, and swaps the cell; if another thread was faster, it starts over.
 */
#ifndef STORE_APPLY_STEP_H
#define STORE_APPLY_STEP_H

#include "records/slots.h"
#include "store/memory.h"
#include "store/store.h"

/** Whether there is no cell for a new key. If so, writes the denial to *out. */
__attribute__((noinline, cold)) bool memory_is_full(const struct memory *store,
                                                    const struct algo_limit *limit,
                                                    const struct table_position *position,
                                                    uint64_t now_ns, struct algo_decision *out);

/* A key that has a state of another generation of parameters, or none. */
struct foreign_state {
	struct memory *store;
	const struct algo_limit *limit;
	const struct table_position *position;
	struct observed_cell observed;
};

/**
 * Converts the state to the limit's parameters, and applies one step. Returns false if the cell has
 * changed meanwhile.
 */
__attribute__((noinline, cold)) bool
memory_apply_converted(const struct foreign_state *foreign, const struct algo_call *call,
                       const struct algo_time *time, struct algo_decision *out, uint64_t *until_ns);

/** memory_apply for wide states. */
__attribute__((noinline)) uint64_t
wide_apply(struct memory *store, const struct algo_limit **current, const struct store_key *key,
           const struct algo_call *call, const struct algo_time *time, struct algo_decision *out);

/** The same on a header and a record that belong to one limit alone; `alone->header` is not looked
 * at. */
uint64_t wide_apply_cell(const struct record_state *alone, const struct algo_limit *limit,
                         const struct algo_call *call, const struct algo_time *time,
                         struct algo_decision *out);

/**
 * Applies a step to a bucket in `cell` if its tag and generation match. Swaps once. If it returns
 * false, nothing has changed, and memory_apply must apply the step. It is inline, so that the
 * results remain in registers: a result that is stored as one word and loaded as two makes the
 * processor wait for all earlier stores.
 */
static inline bool memory_try_bucket(struct cell *cell, bool load_is_atomic, uint32_t tag,
                                     const struct store_step *step, struct algo_decision *out,
                                     uint64_t *until_ns)
{
	const struct algo_limit *limit = step->limit;
	struct cell before = cell_load(cell, load_is_atomic);
	struct algo_time time = {step->at.now_ns, 0};
	struct algo_state state;

	/* No claim has the limit's generation, and no empty cell has a tag. */
	if (__builtin_expect(cell_tag(before) != tag, 0) ||
	    __builtin_expect(cell_generation(before) != limit->generation, 0))
		return false;
	state = memory_state(before, time.now_ns);
	if (!algo_step_whole(limit, &step->call, &time, &state, out)) {
		if (__builtin_expect(!out->allowed && algo_is_too_far_ahead(limit, &time, &state), 0))
			return false;
	} else if (!cell_swap_or_back_off(cell, before, memory_pack(tag, state, limit->generation))) {
		return false;
	}
	*until_ns = state.until_ns;
	return true;
}

/* The same for an acquire from a summed window, whose newest slot is the cell itself. */
static inline bool memory_try_slot(struct cell *cell, bool load_is_atomic, uint32_t tag,
                                   const struct store_step *step, struct algo_decision *out,
                                   uint64_t *until_ns)
{
	const struct algo_limit *limit = step->limit;
	struct cell before, after;

	do {
		before = cell_load(cell, load_is_atomic);
		if (step->call.op != ALGO_ACQUIRE || cell_tag(before) != tag ||
		    !slots_try_acquire(limit, before, step->at.now_ns, step->call.cost, out, &after))
			return false;
	} while (!cell_swap_or_back_off(cell, before, after));
	*until_ns = step->at.now_ns + out->reset_after_ns;
	return true;
}

/**
 * Applies a step by the fast path, if `cell` has the key's state and that is a bucket of the
 * limit's own generation with tokens of whole nanoseconds, or the slot of a summed window. If it
 * returns false, nothing has changed, and memory_apply (or memory_apply_cell) must apply the step.
 */
static inline bool memory_try(struct cell *cell, bool load_is_atomic, uint32_t tag,
                              const struct store_step *step, struct algo_decision *out,
                              uint64_t *until_ns)
{
	if (__builtin_expect(step->limit->has_whole_interval, 1))
		return memory_try_bucket(cell, load_is_atomic, tag, step, out, until_ns);
	return step->limit->header_has_sum &&
	       memory_try_slot(cell, load_is_atomic, tag, step, out, until_ns);
}

/**
 * Applies any step to a key. *by is the limit; if one with other parameters has replaced it
 * meanwhile, *by becomes that one. Returns the expiry of the new state, by which a refund can name
 * it, or 0 if there is no state.
 */
static inline uint64_t memory_apply(struct memory *store, const struct algo_limit **by,
                                    const struct store_key *key, const struct algo_call *call,
                                    const struct algo_time *time, struct algo_decision *out)
{
	struct table_position position = table_position(&store->table, key->hash);
	const struct algo_limit *limit = *by;

	if (__builtin_expect(limit->width != 0, 0))
		return wide_apply(store, by, key, call, time, out);
	for (;;) {
		struct observed_cell observed = memory_find_all(store, &position, key->cell, time->now_ns);
		unsigned generation = cell_generation(observed.value);
		struct algo_state state;

		if (observed.cell && __builtin_expect(generation != limit->generation, 0)) {
			uint64_t until_ns;

			/* Written by earlier parameters, or by later ones that took over just now. */
			*by = limit = algo_current(limit);
			if (generation != limit->generation) {
				if (memory_apply_converted(
				        &(struct foreign_state){store, limit, &position, observed}, call, time, out,
				        &until_ns))
					return until_ns;
				continue;
			}
		}
		state = memory_unpack(observed.value, time->now_ns);
		if (!algo_step(limit, call, time, &state, out) ||
		    table_store(&store->table, &position, observed,
		                memory_pack(position.tag, state, limit->generation), time->now_ns, NULL))
			return state.until_ns;
		if (observed.cell)
			cell_back_off(observed.cell);
		else if (memory_is_full(store, limit, &position, time->now_ns, out))
			return 0;
	}
}

/** The same for a limit without keys. */
static inline uint64_t memory_apply_cell(struct cell *cell, bool load_is_atomic,
                                         const struct algo_limit *limit,
                                         const struct algo_call *call, const struct algo_time *time,
                                         struct algo_decision *out)
{
	for (;;) {
		struct cell before = cell_load(cell, load_is_atomic);
		struct algo_state state = memory_unpack(before, time->now_ns);

		if (!algo_step(limit, call, time, &state, out) ||
		    cell_swap_or_back_off(cell, before, memory_pack(KEYLESS_TAG, state, limit->generation)))
			return state.until_ns;
	}
}

#endif
