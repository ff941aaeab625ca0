/*
 * find_header.c: finds and stores the header of a key whose state needs more than one cell. The
 * header is the key's cell in a table of its limit; the record, further cells, is behind it.
 *
 * A header may be in a former table of the limit. A new header is inserted into the newest table,
 * and may evict another key's state.
 */
#include "store/wide/wide.h"

#include "base/os/fence.h"

bool wide_is_unchanged(const struct wide_state *state)
{
	return !state->at.cell ||
	       wide_cell_is_unchanged(state->at.cell, state->at.header, &state->at.record);
}

/* Judges which state of a table, all of one limit, is evicted. */
struct use_policy {
	struct eviction_policy policy; /* first, so a pointer to it is a pointer to this struct */
	const struct wide_table *wide;
	const struct record_step *step; /* the step that needs capacity */
};

/* The units that a key has in use, by a peek: an eviction of its state would free them. */
static uint64_t key_units_in_use(const struct eviction_policy *eviction_policy, struct cell *cell,
                                 struct cell header)
{
	const struct use_policy *use_policy = (const struct use_policy *)eviction_policy;
	struct record record = wide_record(use_policy->wide, cell, cell_tag(header));
	struct algo_call peek = {.op = ALGO_PEEK};
	struct record_step step = *use_policy->step;
	struct algo_decision out;
	struct record_change change;

	step.call = &peek;
	step.header = header;
	step.record = &record;
	record_decide(&step, &out, &change);
	return step.limit->quota - out.remaining;
}

/* A limit whose requests are reported pins its states, so their use doesn't matter. */
static bool may_be_evicted(const struct algo_limit *limit)
{
	return !algo_is_reported(limit);
}

/*
 * Whether a new header, stored as `header`, is in the limit's newest table. A thread that has not
 * seen a larger table must leave no header in the former one, because another thread may have
 * looked for it there before. The larger table is announced before it is used: so either the other
 * thread finds the header, or this thread finds the announcement and removes the header.
 */
__attribute__((noinline)) static bool header_is_in_newest(struct wide_table *wide,
                                                          const struct table_position *position,
                                                          struct cell header)
{
	struct observed_cell observed;

	fence_behind_swap();
	if (__builtin_expect(!__atomic_load_n(&wide->table.header->is_former, __ATOMIC_ACQUIRE), 1))
		return true;
	observed = table_find(&wide->table, position);
	/* If another thread has changed the header since, that thread's request counts in it, too. */
	return !observed.cell || cell_bits(observed.value) != cell_bits(header) ||
	       !cell_swap(observed.cell, header, (struct cell){0, 0});
}

/*
 * Swaps the header for `after`, or inserts it: if no table has it, header_table is the newest one.
 * Returns false if the caller has to find the header again (it has changed, or it left a former
 * table), or if there is no capacity.
 */
bool wide_store_header(struct wide_state *state, const struct record_step *step, struct cell after)
{
	struct use_policy use_policy = {{key_units_in_use}, state->header_table, step};

	if (!state->header_table) /* a limit without keys */
		return cell_swap(state->at.cell, state->at.header, after);
	if (__builtin_expect(state->header_table != state->newest_table, 0) &&
	    cell_ahead_ns(state->at.header, step->now_ns) <= 0) {
		/* The header is spent: the key leaves the former table, for a header in the newest one. */
		cell_swap(state->at.cell, state->at.header, (struct cell){0, 0});
		return false;
	}
	if (state->at.cell)
		return table_store(&state->header_table->table, &state->position,
		                   (struct observed_cell){state->at.cell, state->at.header}, after,
		                   step->now_ns, may_be_evicted(step->limit) ? &use_policy.policy : NULL);
	return table_store(&state->header_table->table, &state->position,
	                   (struct observed_cell){NULL, {0, 0}}, after, step->now_ns,
	                   may_be_evicted(step->limit) ? &use_policy.policy : NULL) &&
	       header_is_in_newest(state->header_table, &state->position, after);
}

bool wide_is_full(const struct wide_state *state, uint64_t now_ns)
{
	return !state->at.cell && table_is_full(&state->header_table->table, &state->position, now_ns);
}

/* The key's state is not here: a thread claims the cell, or the use has moved to another table. */
static bool header_has_no_state(struct cell header)
{
	return cell_is_claim(header) || cell_is_metadata(header);
}

/* Finds the key's header in `newest`, or in a former table of the limit, and the record behind it.
 */
void wide_find(struct wide_table *newest, const struct store_key *key, struct wide_state *state)
{
	struct wide_table *header_table = newest, *former = wide_usable_former(newest);
	struct table_position position = table_position(&newest->table, key->hash);
	struct observed_cell observed =
	    memory_find(&newest->table, &position, key->wide == newest ? key->cell : NULL);

	for (; !observed.cell && __builtin_expect(former != NULL, 0);
	     former = wide_usable_former(former)) {
		struct table_position there = table_position(&former->table, key->hash);
		struct observed_cell found = table_find(&former->table, &there);

		if (!found.cell || header_has_no_state(found.value))
			continue;
		observed = found;
		position = there;
		header_table = former;
	}
	*state = (struct wide_state){.newest_table = newest,
	                             .header_table = header_table,
	                             .position = position,
	                             .at = {observed.cell, observed.value,
	                                    wide_record(header_table, observed.cell, position.tag)}};
	if (!observed.cell)
		state->at.record.cells = NULL;
}
