/*
 * apply_record.c: carries out calls on *wide states*, the states of keys that need more than one
 * cell: a header in a table, and a record of cells behind it. Repeats a step (records/record.h),
 * which decides and names the next cell to swap, until the decision stands. Some acquires have a
 * fast path (`try_…`). A key of a former table is moved to the newest one first.
 *
 * The header alone is what counts: a decision takes effect by the swap of the header. A cell of the
 * record is written after a check that the header is still the one that the step has read. A thread
 * that stalls between that check and the write may leave an old value; docs/design/wide-states.md
 * says why it does no harm. A decision that changes nothing stands if the header is unchanged after
 * the record was read.
 *
 * An `until` is also a name: no two uses of a key have the same, so a refund says by it which use
 * it is for. Therefore a member such as `unit_name_ns` is a time.
 */
#include "store/wide/wide.h"

#include "records/log.h"
#include "records/slots.h"

/* Cells of a small page. */
#define PAGE_CELLS (4096 / sizeof(struct cell))

/* In cells. Wider records of a set are on too many pages to prefetch. */
#define TOUCHED_WIDTH 128

/* When the state ends, which is its name; 0 if it is empty. */
static uint64_t end_of_header_ns(struct cell header, uint64_t now_ns)
{
	return cell_is_empty(header) ? 0 : now_ns + (uint64_t)cell_ahead_ns(header, now_ns);
}

/* Takes a change that was made off the rest of the call. */
static void subtract_from_rest(struct record_step *step, struct algo_call *rest,
                               const struct record_change *change)
{
	rest->cost -= change->refunded;
	if (change->gap_name_ns != 0)
		step->gap_name_ns = change->gap_name_ns;
}

/* Reports a refund. `rest` is the part of the call that was not done. */
static void report_refund(const struct algo_call *call, const struct algo_call *rest,
                          struct algo_decision *out)
{
	if (algo_op_releases(call->op))
		algo_decision_refund(out, call, rest->cost < call->cost);
}

/* Swaps the cell, and then those of older slots to which a refund continues. */
static bool change_cells(const struct wide_state *state, struct record_step *step,
                         struct algo_call *rest, struct record_change *change)
{
	do {
		if (!wide_is_unchanged(state) ||
		    !cell_swap(&state->at.record.cells[change->index], change->before, change->after))
			return false;
		if (!change->then_header)
			subtract_from_rest(step, rest, change);
		step->progress = change->progress;
	} while (change->older_slots > 0 && slots_refund_older(step, change));
	return true;
}

static bool change_header(struct wide_state *state, struct record_step *step,
                          struct algo_call *rest, const struct record_change *change)
{
	if ((change->voids_record_first &&
	     !record_void_cells(&state->at, state->at.record.width, slots_void)) ||
	    !wide_store_header(state, step, change->header))
		return false;
	subtract_from_rest(step, rest, change);
	return true;
}

/*
 * Makes one step and its change. Returns true if the decision stands. `rest` is the part of the
 * call that is left to do.
 */
static bool apply_one_step(struct wide_state *state, struct record_step *step,
                           struct algo_call *rest, struct algo_decision *out, uint64_t *until_ns)
{
	struct record_change change;

	record_decide(step, out, &change);
	step->progress.live_count = 0; /* only change_cells lets the next step continue */
	switch (change.want) {
	case RECORD_WANT_NOTHING:
		*until_ns = end_of_header_ns(step->header, step->now_ns);
		return wide_is_unchanged(state);
	case RECORD_WANT_AGAIN:
		return false;
	case RECORD_WANT_CELL:
		if (!change_cells(state, step, rest, &change) || !change.then_header)
			return false;
		break;
	case RECORD_WANT_HEADER:
		break;
	}
	if (!change_header(state, step, rest, &change))
		return false;
	*until_ns =
	    change.unit_name_ns ? change.unit_name_ns : end_of_header_ns(change.header, step->now_ns);
	return change.is_final;
}

/* Whether the next step continues in the record of a log, under the same header. */
static bool step_continues(const struct record_step *step)
{
	return step->progress.live_count > 0;
}

static bool apply_steps(struct wide_state *state, struct record_step *step, struct algo_call *rest,
                        struct algo_decision *out, uint64_t *until_ns)
{
	bool done;

	do
		done = apply_one_step(state, step, rest, out, until_ns);
	while (step_continues(step));
	return done;
}

/*
 * Swaps the header of a former table for its closed form; a peek only checks that it is unchanged.
 * Returns false if another thread has changed it.
 */
static bool close_header(const struct wide_state *state, enum algo_op op, struct cell closed)
{
	if (cell_bits(closed) == cell_bits(state->at.header)) /* an earlier call has closed it */
		return true;
	if (op == ALGO_PEEK)
		return wide_is_unchanged(state);
	return cell_swap(state->at.cell, state->at.header, closed);
}

/*
 * Moves the use of a key without a state in the newest table out of a former table: closes the
 * header there, which grants nothing more then. Sets *header to the closed header: it has the units
 * in use, and the first step in the newest table begins with it. A process that dies in between
 * leaves the header closed, and the next call finds it so. Returns false if the caller has to start
 * over.
 */
static bool close_former_header(struct wide_table *former, const struct store_key *key,
                                const struct record_step *step, struct cell *header)
{
	struct record_step old = *step;
	struct wide_state state;
	struct cell closed;

	do {
		wide_find(former, key, &state);
		former = former->former;
	} while (former && !header_is_live(state.at.header, step->now_ns));
	old.header = state.at.header;
	old.record = &state.at.record;
	closed = record_moved_header(&old);
	if (cell_is_empty(closed)) /* nothing is in use there */
		return true;
	if (step->call->op == ALGO_RESET)
		closed = (struct cell){0, 0};
	if (!close_header(&state, step->call->op, closed))
		return false;
	*header = closed;
	return true;
}

/* Whether the header is this key's, and no other limit has replaced this one. */
static inline bool header_is_current(const struct record_step *step)
{
	return cell_tag(step->header) == step->record->tag && algo_is_current(step->limit);
}

/*
 * The functions below are fast paths that decide at once, on `step->header` as it was read from
 * `cell`. They return false if the general steps have to decide.
 */
static inline bool try_log_acquire(struct cell *cell, const struct record_step *step, uint64_t cost,
                                   struct algo_decision *out, uint64_t *until_ns)
{
	const struct record *record = step->record;
	struct log_append append;

	/* Only a narrow log's header says how many entries are live, so that none must be searched. */
	if (step->limit->record != ALGO_RECORD_LOG || !log_is_narrow(record->width) ||
	    !header_is_current(step))
		return false;
	if (!log_try_acquire(step, cost, out, &append))
		return false;
	*until_ns = append.until_ns;
	if (!out->allowed)
		return wide_cell_is_unchanged(cell, step->header, record);
	/* The header is the newest entry. It must be in its own cell before a newer one replaces it. */
	if (!append.entry_is_stored &&
	    (!wide_cell_is_unchanged(cell, step->header, record) ||
	     !cell_swap(&record->cells[append.index], append.before, append.entry)))
		return false;
	return cell_swap(cell, step->header, append.header);
}

/* Prefetches a whole narrow record. */
static void prefetch_slots(const struct record *record)
{
	for (unsigned i = 0; i < ALGO_WIDTH_LEAST; i += 4)
		prefetch(record->cells + i);
}

/*
 * Opens the next slot with three swaps: (1) seal the header, after which its count is final, (2)
 * copy it to its cell of the record, (3) swap it for the new slot. If one fails, the next call
 * carries out the others. A request of cost 0 opens no slot.
 */
static bool try_next_slot(struct cell *cell, struct record_step *step, struct algo_decision *out,
                          uint64_t *until_ns)
{
	const struct record *record = step->record;
	struct record_change change;

	if (step->call->cost == 0 || !header_is_current(step))
		return false;
	prefetch_slots(record);
	if (!slots_seal(step, &change) || !cell_swap(cell, step->header, change.header)) /* (1) */
		return false;
	step->header = change.header;
	slots_open(step, out, &change);
	if (change.want == RECORD_WANT_CELL) { /* (2), unless the cell has the count already */
		if (!wide_cell_is_unchanged(cell, step->header, record) ||
		    !cell_swap(&record->cells[change.index], change.before, change.after))
			return false;
		slots_open(step, out, &change); /* wants the header now, or denies */
	}
	*until_ns = end_of_header_ns(change.header, step->now_ns);
	return change.want == RECORD_WANT_HEADER &&
	       cell_swap(cell, step->header, change.header); /* (3) */
}

__attribute__((flatten)) bool store_try_log(const struct algo_limit *limit,
                                            const struct store_key *key, uint64_t cost,
                                            uint64_t now_ns, struct algo_decision *out,
                                            uint64_t *until_ns)
{
	struct record record = wide_record(key->wide, key->cell, table_tag(key->hash));
	struct record_step step = {limit,  NULL, now_ns, 0, cell_load(key->cell, record.load_is_atomic),
	                           &record};

	return try_log_acquire(key->cell, &step, cost, out, until_ns);
}

bool store_try_open(const struct algo_limit *limit, const struct store_key *key, uint64_t cost,
                    uint64_t now_ns, struct algo_decision *out, uint64_t *until_ns)
{
	struct record record = wide_record(key->wide, key->cell, table_tag(key->hash));
	struct algo_call call = {.cost = cost};
	struct record_step step = {
	    limit, &call, now_ns, 0, cell_load(key->cell, record.load_is_atomic), &record};

	return try_next_slot(key->cell, &step, out, until_ns);
}

/*
 * Applies a call on a limit whose requests are reported: their permits may be in more than one
 * record.
 */
static uint64_t apply_reported(const struct call_target *target, const struct algo_call *call,
                               struct algo_decision *out)
{
	static uint64_t (*const apply[])(const struct call_target *, const struct algo_call *,
	                                 struct algo_decision *) = {
	    [ALGO_RECORD_LEASES] = leases_apply,
	    [ALGO_RECORD_BREAKER] = breaker_apply,
	    [ALGO_RECORD_SUCCESS] = success_apply,
	    [ALGO_RECORD_IN_FLIGHT] = in_flight_apply,
	};

	algo_decision_allow(out);
	return apply[(*target->limit)->record](target, call, out);
}

/*
 * Sets step->header to the header with which the step begins in the newest table, after the key's
 * use in former tables is moved there. `state` is the newest table's.
 */
static enum wide_widening take_over_former(struct wide_state *state, const struct store_key *key,
                                           struct record_step *step, struct algo_decision *out)
{
	struct wide_table *former = state->newest_table->former;

	step->header = state->at.header;
	if (!former)
		return WIDE_NOT_NEEDED;
	if (step->limit->record == ALGO_RECORD_LOG)
		return wide_widen_log(state, key, step, out);
	if (step->limit->record == ALGO_RECORD_SLOTS && !header_is_live(step->header, step->now_ns) &&
	    !close_former_header(former, key, step, &step->header))
		return WIDE_RETRY;
	return WIDE_NOT_NEEDED;
}

/* Returns the end of the state, or 0 if there is none. */
uint64_t wide_apply(struct memory *store, const struct algo_limit **current,
                    const struct store_key *key, const struct algo_call *call,
                    const struct algo_time *time, struct algo_decision *out)
{
	struct wide_state state;
	struct algo_call rest = *call; /* what is refunded stays refunded when the loop starts over */
	struct record_step step = {*current, &rest, time->now_ns, time->window_end_ns,
	                           .record = &state.at.record};
	uint64_t until_ns;

	if (algo_is_reported(*current))
		return apply_reported(
		    &(struct call_target){
		        .store = store, .key = key, .limit = current, .now_ns = time->now_ns},
		    call, out);
	for (;; step.limit = *current) {
		struct wide_table *wide = memory_newest(store, step.limit->identity);
		enum wide_widening widening;

		wide_find(wide, key, &state);
		*current = algo_current(step.limit);
		/* Another limit may have replaced this one and closed the state, or changed the slots. */
		if (*current != step.limit || memory_newest(store, step.limit->identity) != wide)
			continue;
		widening = take_over_former(&state, key, &step, out);
		if (widening == WIDE_ANSWERED)
			return 0;
		if (widening == WIDE_RETRY)
			continue;
		if (apply_steps(&state, &step, &rest, out, &until_ns)) {
			report_refund(call, &rest, out);
			return until_ns;
		}
		if (wide_is_full(&state, step.now_ns)) {
			algo_decision_table_full(step.limit, out);
			return 0;
		}
	}
}

/* Acquires by the fast path of the limit's kind of record. */
static bool try_acquire(const struct record_state *state, struct record_step *step,
                        struct algo_decision *out, uint64_t *until_ns)
{
	bool has_slots = step->limit->header_has_sum;

	return has_slots ? try_next_slot(state->cell, step, out, until_ns)
	                 : try_log_acquire(state->cell, step, step->call->cost, out, until_ns);
}

/* As wide_apply, for the only state of a limit without keys, which is in no table. */
uint64_t wide_apply_cell(const struct record_state *alone, const struct algo_limit *limit,
                         const struct algo_call *call, const struct algo_time *time,
                         struct algo_decision *out)
{
	struct wide_state state = {.at = *alone};
	struct algo_call rest = *call;
	struct record_step step = {
	    limit, &rest, time->now_ns, time->window_end_ns, record_header(alone), &state.at.record};
	uint64_t until_ns;

	if (algo_is_reported(limit))
		return apply_reported(
		    &(struct call_target){.single_state = &state, .limit = &limit, .now_ns = time->now_ns},
		    call, out);
	if (call->op == ALGO_ACQUIRE && try_acquire(alone, &step, out, &until_ns))
		return until_ns;
	do
		step.header = state.at.header = record_header(alone);
	while (!apply_steps(&state, &step, &rest, out, &until_ns));
	report_refund(call, &rest, out);
	return until_ns;
}

/*
 * Prefetches the pages of the records that a key may have: of its home set, and of the next set
 * (its run). Only the header says which record it is. But the records of a set are on a few pages,
 * and a miss in the TLB costs more than the cache miss after it. So the processor finds the pages
 * while the header is being loaded.
 */
void wide_touch_records(const struct wide_table *wide, uint64_t hash)
{
	struct table_position position = table_position(&wide->table, hash);
	ptrdiff_t cells = wide->section.record_cells;
	const struct cell *records = wide->records + (position.home - wide->table.cells) * cells;
	ptrdiff_t run = (table_run(&wide->table, &position) - position.home) * cells;

	if (cells > TOUCHED_WIDTH)
		return;
	for (ptrdiff_t i = 0; i < cells * TABLE_SET_CELLS; i += PAGE_CELLS) {
		prefetch(records + i);
		prefetch(records + run + i);
	}
}

static void prefetch_entry(const struct record *record, unsigned index, unsigned back)
{
	unsigned at = record_back(record, index, back);

	if (at < record->width) /* a greater index is of a damaged record, or of no log */
		prefetch(&record->cells[at]);
}

/* Prefetches a log's own, newest and oldest entries. */
static void prefetch_log(const struct record *record, struct log_header header)
{
	prefetch_entry(record, header.index, 0);
	prefetch_entry(record, header.index, 1);
	if (log_is_narrow(record->width))
		prefetch_entry(record, header.index, header.span);
}

void wide_fetch_record(const struct algo_limit *limit, const struct store_key *key, uint64_t now_ns)
{
	struct cell header = cell_load(key->cell, key->wide->table.load_is_atomic);
	struct record record = wide_record(key->wide, key->cell, 0);

	if (limit->record == ALGO_RECORD_LOG)
		prefetch_log(&record, log_header(record.width, cell_word(header)));
	else if (!limit->header_has_sum || slots_needs_record(limit, now_ns, header))
		prefetch_slots(&record);
}
