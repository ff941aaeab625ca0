/*
 * health_rows.c: the rows in which a key of a limit with phases is counted.
 *
 * A limit that needed wider rows has left former tables behind. Nothing new comes into a row there:
 * its permits and its results count until they end, and each call adds them to those of the newest
 * row.
 */
#include "store/wide/health_rows.h"

static bool has_former(const struct watch *watch)
{
	return __builtin_expect(watch->held.count > 1, 0);
}

/* Adds the flights in former tables, and the phase, where the newest table has none. */
static void look_back(struct watch *watch, struct health_sweep *sweep)
{
	struct held *held = &watch->held;
	size_t count = 1;

	for (size_t i = 1; i < held->count; i++) {
		const struct row_state *at = &held->rows[i].at;
		struct health_look look;

		if (!at->cell || !row_head_live(at->head, held->now_ns))
			continue;
		if (!held->rows[0].at.cell && count == 1) {
			health_row_phase(held->limit, held->now_ns, &at->row, &look);
			watch->seen.health = look.health;
		}
		health_row_look_former(held->limit, held->now_ns, &at->row, &watch->seen, sweep);
		held->rows[count++] = held->rows[i];
	}
	held->count = count;
}

void health_rows_look(struct watch *watch, struct health_sweep *sweep)
{
	const struct row_state *at = &watch->held.rows[0].at;
	const struct algo_limit *limit;

	held_find(&watch->held);
	limit = watch->held.limit;
	if (!at->cell)
		sweep = NULL;
	if (cell_tag(at->head) == at->row.tag)
		health_row_adopt(limit, at, watch->held.now_ns);
	health_row_look(limit, watch->held.now_ns, &at->row, &watch->seen, sweep);
	if (has_former(watch))
		look_back(watch, sweep);
}

void health_rows_note_lost(struct watch *watch, const struct health_sweep *sweep)
{
	const struct health_params *params = &watch->held.limit->health;

	watch->lost_ns = health_lost_ns(params, watch->lost_ns,
	                                health_probe_end_ns(params, sweep->first_ns));
	watch->lost_ns = health_lost_ns(params, watch->lost_ns,
	                                health_probe_end_ns(params, sweep->last_ns));
}

/* The newest first. */
static uint64_t give_groups(struct watch *watch, struct health_list *list, uint64_t n)
{
	uint32_t tag = watch->held.rows[0].at.row.tag;
	uint64_t given = 0;

	while (list->grouped > 0 && given < n) {
		struct health_group *groups = list->groups, *newest = groups;

		for (size_t i = 1; i < list->grouped; i++)
			newest = groups[i].ahead_ns > newest->ahead_ns ? &groups[i] : newest;
		given += health_group_give(watch->held.limit, tag, newest, n - given);
		*newest = groups[--list->grouped];
	}
	return given;
}

static uint64_t give_alone(struct watch *watch, struct newest *newest, uint64_t n)
{
	const struct held *held = &watch->held;
	uint64_t given = 0, last_ns = 0;

	if (n == 0 || newest->count == 0)
		return 0;
	held_find_newest(held, health_row_visit, n, newest);
	for (size_t i = 0; i < held->count; i++)
		given += health_row_give_newest(held->limit, held->now_ns, &held->rows[i].at.row, newest,
		                                &last_ns);
	watch->seen.last_ns = last_ns;
	return given;
}

uint64_t health_rows_give_newest(struct watch *watch, struct health_list *list, uint64_t n)
{
	bool bounded = watch->held.limit->health.max_concurrent != 0;
	uint64_t given = bounded ? 0 : give_groups(watch, list, n);

	given += give_alone(watch, &list->alone, n - given);
	if (bounded && given < n)
		given += give_groups(watch, list, n - given);
	watch->seen.in_flight = sat_sub(watch->seen.in_flight, given);
	if (watch->seen.in_flight == 0)
		watch->seen.last_ns = 0;
	return given;
}

uint64_t health_rows_tally(const struct watch *watch, struct health_tally *tally)
{
	const struct held *held = &watch->held;
	uint64_t ahead_ns =
	    health_row_tally(held->limit, &held->rows[0].at.row, &watch->seen, held->now_ns, tally);
	struct health_look look;

	if (!has_former(watch))
		return ahead_ns;
	look = watch->seen;
	look.mixed = true;
	for (size_t i = 1; i < held->count; i++)
		ahead_ns = u64_max(ahead_ns, health_row_add_tally(held->limit, &held->rows[i].at.row, &look,
		                                                  held->now_ns, tally));
	return ahead_ns;
}

/*
 * The oldest row that seems to have it: permits that are counted together in a later row all end
 * later than those in the row before.
 */
static const struct row_state *find_in_rows(const struct watch *watch, struct health_permit *permit)
{
	const struct row_state *found = NULL;
	struct health_permit there = *permit;

	for (size_t i = 0; i < watch->held.count; i++, there.place = 0) {
		const struct row_state *at = &watch->held.rows[i].at;

		if (!at->cell || !health_row_has(watch->held.limit, at, &there))
			continue;
		*permit = there;
		found = at;
	}
	return found;
}

/* A permit with a cell of its own must not be taken from those that are counted together. */
const struct row_state *health_rows_find(const struct watch *watch, struct health_permit *permit)
{
	const struct row_state *found = NULL;

	permit->alone = watch->seen.mixed || has_former(watch);
	if (permit->alone)
		found = find_in_rows(watch, permit);
	if (found)
		return found;
	permit->alone = false;
	return find_in_rows(watch, permit);
}

void health_rows_end_former(const struct watch *watch)
{
	for (size_t i = 1; i < watch->held.count; i++)
		health_row_end_all(watch->held.limit, &watch->held.rows[i].at);
}
