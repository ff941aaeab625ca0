/*
 * wide.c: the loop in which a step on a head and its row meets what others write.
 *
 * The head is the only thing that decides: a row cell is written after a look
 * that the head is still the one it is written for, and what a thread that
 * stalls between the two leaves behind is found and named in
 * docs/design/wide-states.md. An answer that changes nothing stands if the head
 * is the same after the row was read.
 */
#include "store/wide/wide.h"

#include "rows/log.h"
#include "rows/slots.h"

/* Cells of a page, if it is a small one. */
#define PAGE_CELLS (4096 / sizeof(struct cell))

/* Rows of a set that are wider have too many pages. */
#define TOUCHED_WIDTH 128

static uint64_t until_of(struct cell head, uint64_t now_ns)
{
	return cell_is_empty(head) ? 0 : now_ns + (uint64_t)cell_ahead_ns(head, now_ns);
}

/* The rest of a call, once a change is done. */
static void go_on(struct row_step *on, struct algo_call *rest, const struct row_change *change)
{
	rest->cost -= change->given_back;
	if (change->gone_ns != 0)
		on->gone_ns = change->gone_ns;
}

/* `rest` is what a call has left to do. */
static void say_what_was_given(const struct algo_call *asked, const struct algo_call *rest,
                               struct algo_decision *out)
{
	if (algo_op_releases(asked->op))
		algo_decision_refund(out, asked, rest->cost < asked->cost);
}

/* Changes the cell, and then those of older slots that a refund goes on to. */
static bool change_cells(const struct wide_state *state, struct row_step *on,
                         struct algo_call *rest, struct row_change *change)
{
	do {
		if (!wide_still(state) ||
		    !cell_swap(&state->at.row.cells[change->place], change->before, change->after))
			return false;
		if (!change->then_head)
			go_on(on, rest, change);
		on->way = change->way;
	} while (change->older > 0 && slots_refund_older(on, change));
	return true;
}

/* One step and what it wants; true when its outcome stands. `rest` is what is left to do. */
static bool attempt_step(struct wide_state *state, struct row_step *on, struct algo_call *rest,
                         struct algo_decision *out, uint64_t *until_ns)
{
	struct row_change change;

	rows_step(on, out, &change);
	on->way.live = 0;
	switch (change.want) {
	case ROW_WANT_NOTHING:
		*until_ns = until_of(on->head, on->now_ns);
		return wide_still(state);
	case ROW_WANT_AGAIN:
		return false;
	case ROW_WANT_CELL:
		if (!change_cells(state, on, rest, &change) || !change.then_head)
			return false;
		__attribute__((fallthrough));
	case ROW_WANT_HEAD:
		if ((change.clean && !rows_clean(&state->at, state->at.row.width, slots_void)) ||
		    !wide_store_head(state, on, change.head))
			return false;
		go_on(on, rest, &change);
		*until_ns = change.name_ns ? change.name_ns : until_of(change.head, on->now_ns);
		return change.last;
	}
	__builtin_unreachable();
}

/* The same, with the steps that go on under the same head: one that changes makes them end. */
static bool attempt(struct wide_state *state, struct row_step *on, struct algo_call *rest,
                    struct algo_decision *out, uint64_t *until_ns)
{
	bool done;

	do
		done = attempt_step(state, on, rest, out, until_ns);
	while (on->way.live > 0);
	return done;
}

/*
 * For a key that has no state in its limit's table: what it has in the one that the limit
 * had before. That is closed there first, so that it is the last word; whoever dies in
 * between leaves it closed, and the next finds it so. Returns false if the caller is to look again.
 */
static bool find_former(struct wide_table *former, const struct store_key *key,
                        const struct row_step *on, struct cell *head)
{
	struct row_step old = *on;
	struct wide_state state;
	struct cell moved;

	do {
		wide_find(former, key, &state);
		former = former->former;
	} while (former && !row_head_live(state.at.head, on->now_ns));
	old.head = state.at.head;
	old.row = &state.at.row;
	moved = rows_moved(&old);
	if (cell_is_empty(moved))
		return true;
	if (on->call->op == ALGO_RESET)
		moved = (struct cell){0, 0};
	if (cell_bits(moved) != cell_bits(old.head) &&
	    (on->call->op == ALGO_PEEK ? !wide_still(&state)
	                               : !cell_swap(state.at.cell, old.head, moved)))
		return false;
	*head = moved;
	return true;
}

/* Whether the head is of this key, and nothing has taken over from the limit. */
static inline bool is_own(const struct row_step *on)
{
	return cell_tag(on->head) == on->row->tag && algo_is_current(on->limit);
}

/* The functions below decide at once, for `on->head` as it is in `cell`. */
static inline bool try_log(struct cell *cell, const struct row_step *on, uint64_t cost,
                           struct algo_decision *out, uint64_t *until_ns)
{
	const struct row *row = on->row;
	struct log_append append;

	if (on->limit->rows != ALGO_ROWS_LOG || !log_is_narrow(row->width) || !is_own(on) ||
	    !log_try(on, cost, out, &append))
		return false;
	*until_ns = append.until_ns;
	if (!out->allowed)
		return wide_is_still(cell, on->head, row);
	if (!append.is_there && (!wide_is_still(cell, on->head, row) ||
	                         !cell_swap(&row->cells[append.place], append.before, append.entry)))
		return false;
	return cell_swap(cell, on->head, append.head);
}

/* All of a narrow row. */
static void fetch_slots(const struct row *row)
{
	for (unsigned i = 0; i < ALGO_WIDTH_LEAST; i += 4)
		prefetch(row->cells + i);
}

/* From one slot to the next: all three swaps, of which whoever comes can do the rest. */
static bool try_open(struct cell *cell, struct row_step *on, struct algo_decision *out,
                     uint64_t *until_ns)
{
	const struct row *row = on->row;
	struct row_change change;

	if (on->call->cost == 0 || !is_own(on))
		return false;
	fetch_slots(row);
	if (!slots_seal(on, &change) || !cell_swap(cell, on->head, change.head))
		return false;
	on->head = change.head;
	slots_open(on, out, &change);
	if (change.want == ROW_WANT_CELL) {
		if (!wide_is_still(cell, on->head, row) ||
		    !cell_swap(&row->cells[change.place], change.before, change.after))
			return false;
		slots_open(on, out, &change);
	}
	*until_ns = until_of(change.head, on->now_ns);
	return change.want == ROW_WANT_HEAD && cell_swap(cell, on->head, change.head);
}

__attribute__((flatten)) bool store_try_log(const struct algo_limit *limit,
                                            const struct store_key *key, uint64_t cost,
                                            uint64_t now_ns, struct algo_decision *out,
                                            uint64_t *until_ns)
{
	struct row row = wide_row(key->wide, key->cell, table_tag(key->hash));
	struct row_step on = {limit, NULL, now_ns, 0, cell_load(key->cell, row.load_is_atomic), &row};

	return try_log(key->cell, &on, cost, out, until_ns);
}

bool store_try_open(const struct algo_limit *limit, const struct store_key *key, uint64_t cost,
                    uint64_t now_ns, struct algo_decision *out, uint64_t *until_ns)
{
	struct row row = wide_row(key->wide, key->cell, table_tag(key->hash));
	struct algo_call call = {.cost = cost};
	struct row_step on = {limit, &call, now_ns, 0, cell_load(key->cell, row.load_is_atomic), &row};

	return try_open(key->cell, &on, out, until_ns);
}

/* A permit that is given back when its request ends may be in more than one head. */
static uint64_t apply_reported(const struct holder *holder, const struct algo_call *call,
                               struct algo_decision *out)
{
	static uint64_t (*const apply[])(const struct holder *, const struct algo_call *,
	                                 struct algo_decision *) = {
	    [ALGO_ROWS_PLACES] = places_apply,
	    [ALGO_ROWS_HEALTH] = health_apply,
	    [ALGO_ROWS_ACCEPTS] = accepts_apply,
	    [ALGO_ROWS_FLYING] = flying_apply,
	};

	algo_decision_allow(out);
	return apply[(*holder->by)->rows](holder, call, out);
}

uint64_t wide_apply(struct memory *store, const struct algo_limit **by, const struct store_key *key,
                    const struct algo_call *call, const struct algo_time *time,
                    struct algo_decision *out)
{
	struct wide_state state;
	struct algo_call rest = *call;
	struct row_step on = {*by, &rest, time->now_ns, time->window_end_ns, .row = &state.at.row};
	uint64_t until_ns;

	if (algo_is_reported(*by))
		return apply_reported(
		    &(struct holder){.store = store, .key = key, .by = by, .now_ns = time->now_ns}, call,
		    out);
	for (;; on.limit = *by) {
		struct wide_table *wide = memory_newest(store, on.limit->identity);

		wide_find(wide, key, &state);
		*by = algo_current(on.limit);
		/* A successor may have closed this state, or given slots another length. */
		if (*by != on.limit || memory_newest(store, on.limit->identity) != wide)
			continue;
		on.head = state.at.head;
		if (wide->former && on.limit->rows == ALGO_ROWS_LOG) {
			enum wide_carried carried = wide_carry_log(&state, key, &on, out);

			if (carried == WIDE_ANSWERED)
				return 0;
			if (carried == WIDE_AGAIN)
				continue;
		} else if (wide->former && on.limit->rows == ALGO_ROWS_SLOTS &&
		           !row_head_live(on.head, on.now_ns) &&
		           !find_former(wide->former, key, &on, &on.head)) {
			continue;
		}
		if (attempt(&state, &on, &rest, out, &until_ns)) {
			say_what_was_given(call, &rest, out);
			return until_ns;
		}
		if (wide_is_full(&state, on.now_ns)) {
			algo_decision_table_full(on.limit, out);
			return 0;
		}
	}
}

uint64_t wide_apply_cell(const struct row_state *alone, const struct algo_limit *limit,
                         const struct algo_call *call, const struct algo_time *time,
                         struct algo_decision *out)
{
	struct wide_state state = {.at = *alone};
	struct algo_call rest = *call;
	struct row_step on = {limit,           &rest,        time->now_ns, time->window_end_ns,
	                      row_head(alone), &state.at.row};
	uint64_t until_ns;

	if (algo_is_reported(limit))
		return apply_reported(
		    &(struct holder){.alone = &state, .by = &limit, .now_ns = time->now_ns}, call, out);
	if (call->op == ALGO_ACQUIRE &&
	    (limit->head_has_sum ? try_open(alone->cell, &on, out, &until_ns)
	                         : try_log(alone->cell, &on, call->cost, out, &until_ns)))
		return until_ns;
	do
		on.head = state.at.head = row_head(alone);
	while (!attempt(&state, &on, &rest, out, &until_ns));
	say_what_was_given(call, &rest, out);
	return until_ns;
}

/*
 * Only the head tells which row it is, and in it the place. But rows stand in the order of
 * their cells, so those of a set are in a few pages, and a walk through the page tables takes
 * longer than the line behind it: that walk goes on while the head is still on its way.
 */
void wide_touch_rows(const struct wide_table *wide, uint64_t hash)
{
	struct table_position position = table_position(&wide->table, hash);
	ptrdiff_t cells = wide->section.row_cells;
	const struct cell *rows = wide->rows + (position.home - wide->table.cells) * cells;
	ptrdiff_t run = (table_run(&wide->table, &position) - position.home) * cells;

	if (cells > TOUCHED_WIDTH)
		return;
	for (ptrdiff_t i = 0; i < cells * TABLE_SET_CELLS; i += PAGE_CELLS) {
		prefetch(rows + i);
		prefetch(rows + run + i);
	}
}

static void fetch_back(const struct row *row, unsigned place, unsigned back)
{
	unsigned at = row_back(row, place, back);

	if (at < row->width) /* else it is damaged, or no log */
		prefetch(&row->cells[at]);
}

/* For a log: the places of the head, the newest and the oldest. */
static void fetch_log(const struct row *row, struct log_head head)
{
	fetch_back(row, head.place, 0);
	fetch_back(row, head.place, 1);
	if (log_is_narrow(row->width))
		fetch_back(row, head.place, head.span);
}

void wide_fetch_row(const struct algo_limit *limit, const struct store_key *key, uint64_t now_ns)
{
	struct cell head = cell_load(key->cell, key->wide->table.load_is_atomic);
	struct row row = wide_row(key->wide, key->cell, 0);

	if (limit->rows == ALGO_ROWS_LOG)
		fetch_log(&row, log_head(row.width, cell_word(head)));
	else if (!limit->head_has_sum || slots_needs_row(limit, now_ns, head))
		fetch_slots(&row);
}
