/*
 * health_rows.c: the rows in which a key of a limit with phases is counted.
 *
 * A limit that needed wider rows has left former tables behind. Nothing new comes into a row there:
 * its permits and its results count until they end, and each call adds them to those of the newest
 * row.
 */
#include "store/wide/health_rows.h"

#include <stdlib.h>

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
static void look_back(struct watch *watch, struct health_sweep *sweep)
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
		health_row_look_former(watch->limit, watch->now_ns, &former.at.row, &watch->seen, sweep);
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

void health_rows_look(struct watch *watch, struct health_sweep *sweep)
{
	const struct algo_limit *limit;

	find(watch);
	limit = watch->limit;
	watch->has_former = false;
	if (!watch->state.at.cell)
		sweep = NULL;
	if (cell_tag(watch->state.at.head) == watch->state.at.row.tag)
		health_row_adopt(limit, &watch->state.at, watch->now_ns);
	health_row_look(limit, watch->now_ns, &watch->state.at.row, &watch->seen, sweep);
	if (__builtin_expect(first_former(watch) != NULL, 0))
		look_back(watch, sweep);
}

void health_rows_note_lost(struct watch *watch, const struct health_sweep *sweep)
{
	const struct health_params *params = &watch->limit->health;

	watch->lost_ns = health_lost_ns(params, watch->lost_ns,
	                                health_probe_end_ns(params, sweep->first_ns));
	watch->lost_ns = health_lost_ns(params, watch->lost_ns,
	                                health_probe_end_ns(params, sweep->last_ns));
}

static int later_first(const void *a, const void *b)
{
	const struct health_group *one = a, *other = b;

	return (one->ahead_ns < other->ahead_ns) - (one->ahead_ns > other->ahead_ns);
}

static uint64_t give_groups(struct watch *watch, struct health_list *list, uint64_t n)
{
	uint64_t given = 0;

	qsort(list->groups, list->grouped, sizeof *list->groups, later_first);
	for (size_t i = 0; i < list->grouped && given < n; i++)
		given += health_group_give(watch->limit, watch->state.at.row.tag, &list->groups[i], n - given);
	return given;
}

static uint64_t give_alone(struct watch *watch, struct health_list *list, uint64_t n)
{
	struct health_newest newest = {0};
	struct wide_table *wide = watch->has_former ? first_former(watch) : NULL;
	struct wide_state former;

	n = u64_min(n, list->alone);
	if (n == 0)
		return 0;
	newest.after_ns = rows_greatest(list->alone_ns, list->alone, n, &newest.then);
	health_row_give_newest(watch->limit, watch->now_ns, &watch->state.at.row, &newest);
	while (next_former(watch, &wide, &former))
		health_row_give_newest(watch->limit, watch->now_ns, &former.at.row, &newest);
	watch->seen.last_ns = newest.last_ns;
	return newest.given;
}

uint64_t health_rows_give_newest(struct watch *watch, struct health_list *list, uint64_t n)
{
	bool bounded = watch->limit->health.max_concurrent != 0;
	uint64_t given = bounded ? 0 : give_groups(watch, list, n);

	given += give_alone(watch, list, n - given);
	if (bounded && given < n)
		given += give_groups(watch, list, n - given);
	watch->seen.in_flight = sat_sub(watch->seen.in_flight, given);
	if (watch->seen.in_flight == 0)
		watch->seen.last_ns = 0;
	return given;
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
static const struct row_state *find_in_rows(const struct watch *watch, struct health_permit *permit,
                                            struct wide_state *former)
{
	bool is_here = watch->state.at.cell && health_row_has(watch->limit, &watch->state.at, permit);
	const struct row_state *found = is_here ? &watch->state.at : NULL;
	struct wide_table *wide = watch->has_former ? first_former(watch) : NULL;
	struct health_permit there = *permit;
	struct wide_state next;

	while (next_former(watch, &wide, &next)) {
		there.place = 0;
		if (!health_row_has(watch->limit, &next.at, &there))
			continue;
		*former = next;
		*permit = there;
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
		found = find_in_rows(watch, permit, former);
	if (found)
		return found;
	permit->alone = false;
	return find_in_rows(watch, permit, former);
}

void health_rows_end_former(const struct watch *watch)
{
	struct wide_table *wide = watch->has_former ? first_former(watch) : NULL;
	struct wide_state former;

	while (next_former(watch, &wide, &former))
		health_row_end_all(watch->limit, &former.at);
}
