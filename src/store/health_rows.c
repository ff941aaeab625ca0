/*
 * health_rows.c: the rows in which a key of a limit with phases is counted.
 *
 * A limit that needed wider rows has left former tables behind. Nothing new comes into a row there:
 * its permits and its results count until they end, and each call adds them to those of the newest
 * row.
 */
#include "store/health_rows.h"

/*
 * The key's rows in former tables, which were narrower: from `wide` on, the next that is live.
 * Another call goes on from `wide`, which is then the table before.
 */
static bool next_former(const struct watch *watch, struct wide_table **wide,
                        struct wide_state *former)
{
	while (*wide) {
		wide_find(*wide, watch->holder->key, former);
		*wide = former->wide->former;
		if (former->at.cell && row_head_live(former->at.head, watch->now_ns))
			return true;
	}
	return false;
}

static struct wide_table *first_former(const struct watch *watch)
{
	return watch->state.wide ? watch->state.wide->former : NULL;
}

/* Adds the flights in former tables, and the phase, where the newest table has none. */
static void look_back(struct watch *watch)
{
	struct wide_table *wide = first_former(watch);
	struct wide_state former;

	while (next_former(watch, &wide, &former)) {
		struct health_look look;

		if (!watch->state.at.cell && !watch->has_former) {
			health_row_phase(watch->limit, watch->now_ns, &former.at.row, &look);
			watch->seen.health = look.health;
		}
		watch->has_former = true;
		if (watch->seen.overdue)
			return;
		health_row_look_former(watch->limit, watch->now_ns, &former.at.row, &watch->seen);
		watch->former = former;
		watch->is_former = true;
	}
}

static void find(struct watch *watch)
{
	const struct holder *holder = watch->holder;

	watch->limit = algo_current(watch->limit);
	if (holder->store) {
		wide_find(memory_newest(holder->store, watch->limit->identity), holder->key, &watch->state);
	} else {
		watch->state = *holder->alone;
		watch->state.at.head = row_head(&holder->alone->at);
	}
}

void health_rows_look(struct watch *watch)
{
	find(watch);
	watch->has_former = watch->is_former = false;
	health_row_look(watch->limit, watch->now_ns, &watch->state.at.row, &watch->seen);
	if (__builtin_expect(watch->seen.is_others, 0) &&
	    cell_tag(watch->state.at.head) == watch->state.at.row.tag) {
		health_row_adopt(watch->limit, &watch->state.at, watch->now_ns);
		health_row_look(watch->limit, watch->now_ns, &watch->state.at.row, &watch->seen);
	}
	if (__builtin_expect(first_former(watch) != NULL, 0))
		look_back(watch);
}

uint64_t health_rows_tally(const struct watch *watch, struct health_tally *tally)
{
	uint64_t ahead_ns =
	    health_row_tally(watch->limit, &watch->state.at.row, &watch->seen, watch->now_ns, tally);
	struct wide_table *wide;
	struct wide_state former;
	struct health_look look;

	if (__builtin_expect(!watch->has_former, 1))
		return ahead_ns;
	look = watch->seen;
	look.mixed = true;
	wide = first_former(watch);
	while (next_former(watch, &wide, &former))
		ahead_ns = u64_max(ahead_ns, health_row_add_tally(watch->limit, &former.at.row, &look,
		                                                  watch->now_ns, tally));
	return ahead_ns;
}

/*
 * The oldest row that seems to have it: permits that are counted together in a later row all end
 * later than those in the row before.
 */
static const struct row_state *find_in_rows(const struct watch *watch, struct health_permit permit,
                                            struct wide_state *former)
{
	bool is_here = watch->state.at.cell && health_row_has(watch->limit, &watch->state.at, permit);
	const struct row_state *found = is_here ? &watch->state.at : NULL;
	struct wide_table *wide = watch->has_former ? first_former(watch) : NULL;
	struct wide_state next;

	while (next_former(watch, &wide, &next)) {
		if (!health_row_has(watch->limit, &next.at, permit))
			continue;
		*former = next;
		found = &former->at;
	}
	return found;
}

/* A permit with a cell of its own must not be taken from those that are counted together. */
const struct row_state *health_rows_find(const struct watch *watch, struct health_permit *permit,
                                         struct wide_state *former)
{
	const struct row_state *found = NULL;

	permit->alone = watch->seen.mixed || watch->has_former;
	if (permit->alone)
		found = find_in_rows(watch, *permit, former);
	if (found)
		return found;
	permit->alone = false;
	return find_in_rows(watch, *permit, former);
}

void health_rows_end_former(const struct watch *watch)
{
	struct wide_table *wide = watch->has_former ? first_former(watch) : NULL;
	struct wide_state former;

	while (next_former(watch, &wide, &former))
		health_row_end_all(watch->limit, &former.at, watch->now_ns);
}
