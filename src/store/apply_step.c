/*
 * apply_step.c: applies a call to the state of a key in the cases that the fast path of
 * apply_step.h leaves out: other parameters of the limit have written the state, or it is in a
 * former table. Also removes a key.
 */
#include "store/apply_step.h"

#include "store/parameter_history.h"

/* Whether a new key finds no cell. If so, sets the decision. */
bool memory_is_full(const struct memory *store, const struct algo_limit *limit,
                    const struct table_position *position, uint64_t now_ns,
                    struct algo_decision *out)
{
	bool full = table_is_full(&store->table, position, now_ns);

	if (full)
		algo_decision_table_full(limit, out);
	return full;
}

/*
 * Converts the state to the limit's parameters, and applies the call. Sets *until_ns to the end of
 * the state. Returns false if the cell has changed meanwhile.
 *
 * An acquire stores the converted state even if it is denied. Otherwise the next request would
 * convert it again as of its own time, so that the state would leak by its old rate. If the limit
 * allows less use than the state has, the state is cut, and a record says when it would end uncut.
 * A cut that must not be stored hides use from this call alone. A peek writes nothing.
 */
bool memory_apply_converted(const struct foreign_state *foreign, const struct algo_call *call,
                            const struct algo_time *time, struct algo_decision *out,
                            uint64_t *until_ns)
{
	const struct algo_limit *limit = foreign->limit;
	const struct history_state written = {foreign->store, limit, foreign->position->hash,
	                                      foreign->observed.value};
	bool consumes = algo_consumes(call), changed, has_hidden_use, has_no_uncut_end;
	struct algo_state state = {0, 0};
	struct algo_call adapted = *call;
	uint64_t uncut_end_ns = 0; /* when the state would end if all use could be converted */
	struct cell after;

	if (memory_has_state(written.cell)) {
		state = memory_written(written.cell, time->now_ns);
		uncut_end_ns = history_convert(&written, consumes, time->now_ns, &state);
	}
	has_hidden_use = uncut_end_ns == HISTORY_HIDDEN;
	has_no_uncut_end = uncut_end_ns >= HISTORY_HIDDEN; /* or ALGO_CUT */
	if (state.until_ns <= time->now_ns)
		state = (struct algo_state){0, 0};
	if (call->op == ALGO_REFUND && has_hidden_use)
		adapted.cost = 0; /* a refund would store the state without the hidden use */
	changed = algo_step(limit, &adapted, time, &state, out);
	if (adapted.cost != call->cost)
		algo_decision_refund(out, call, false);
	*until_ns = state.until_ns;
	if (!changed && (!consumes || has_no_uncut_end))
		return true;
	after = memory_pack(foreign->position->tag, state, limit->generation);
	if (!table_store(&foreign->store->table, foreign->position, foreign->observed, after,
	                 time->now_ns, NULL))
		return false;
	if (!changed && uncut_end_ns > state.until_ns)
		history_record_cut(&written, after, uncut_end_ns, time->now_ns);
	return true;
}

/* Removes the key's state. Returns false if there is none. */
bool store_forget(const struct store_step *step)
{
	struct memory *store = memory_of(step->store);
	struct table *table = &store->table;
	struct table_position position = table_position(table, step->key.hash);
	uint64_t now_ns = step->at.now_ns;

	for (;;) {
		struct observed_cell observed = memory_find_all(store, &position, step->key.cell, now_ns);

		if (memory_unpack(observed.value, now_ns).until_ns == 0)
			return false;
		if (table_store(table, &position, observed, (struct cell){0, 0}, now_ns, NULL))
			return true;
	}
}
