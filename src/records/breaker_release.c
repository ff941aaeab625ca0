/*
 * breaker_release.c: releases permits of a circuit breaker that no report names: the newest ones of
 * a key's record, for a refund, or all, for a reset.
 *
 * An in-flight entry is a cell of the record: of a single permit (its generation's lowest bit is
 * set) or of a group.
 */
#include "records/breaker_record.h"
#include "records/breaker_cells.h"

/* How long until an in-flight entry ends; 0 if the cell is none. */
static uint64_t entry_ahead_ns(const struct breaker_params *params, uint64_t now_ns,
                               const struct record *record, unsigned index, struct cell *cell)
{
	int64_t ahead_ns;

	if (!breaker_may_be_in_flight(breaker_low(record, index), record->tag))
		return 0;
	*cell = record_load(record, index);
	ahead_ns = cell_ahead_ns(*cell, now_ns);
	return breaker_is_in_flight_by_either_mark(params, *cell, record->tag) &&
	               !breaker_is_overdue(params, ahead_ns)
	           ? (uint64_t)ahead_ns
	           : 0;
}

/* Calls `visit` with the end of each single permit. */
void breaker_record_visit_singles(const struct algo_limit *limit, uint64_t now_ns,
                                  const struct record_state *at, newest_visit *visit,
                                  struct newest *newest)
{
	for (unsigned i = BREAKER_FIRST_STRIPE; i < at->record.width; i++) {
		struct cell cell;
		uint64_t ahead_ns = entry_ahead_ns(&limit->breaker, now_ns, &at->record, i, &cell);

		if (ahead_ns > 0 && cell_generation(cell) & 1)
			visit(newest, ahead_ns);
	}
}

/*
 * Releases the single permits that `newest` includes. Returns how many. Raises `*last_ns` to how
 * long until the last permit ends that stays.
 */
uint64_t breaker_record_release_newest(const struct algo_limit *limit, uint64_t now_ns,
                                       const struct record *record, struct newest *newest,
                                       uint64_t *last_ns)
{
	uint64_t released = 0;

	for (unsigned i = BREAKER_FIRST_STRIPE; record->cells && i < record->width; i++) {
		struct cell cell;
		uint64_t ahead_ns = entry_ahead_ns(&limit->breaker, now_ns, record, i, &cell);

		if (ahead_ns == 0)
			continue;
		if (cell_generation(cell) & 1 && newest_includes(newest, ahead_ns) &&
		    breaker_expire_entry(&record->cells[i], cell)) {
			newest_count_release(newest, ahead_ns);
			released++;
		} else {
			*last_ns = u64_max(*last_ns, ahead_ns);
		}
	}
	return released;
}

/* Releases up to `n` permits of a group. Returns how many. */
uint64_t breaker_group_release(const struct algo_limit *limit, uint32_t tag,
                               const struct breaker_group *group, uint64_t n)
{
	struct cell before, after;
	uint64_t released;

	do {
		before = cell_peek(group->cell);
		if (!breaker_is_in_flight_by_either_mark(&limit->breaker, before, tag))
			return 0;
		released = u64_min(n, cell_word(before));
		after = (struct cell){before.low - released, before.high};
	} while (!cell_swap(group->cell, before, after));
	return released;
}

void breaker_record_expire_all(const struct algo_limit *limit, const struct record_state *at)
{
	for (unsigned i = BREAKER_FIRST_STRIPE; i < at->record.width; i++) {
		struct cell cell = record_load(&at->record, i);

		if (breaker_is_in_flight_by_either_mark(&limit->breaker, cell, at->record.tag))
			breaker_expire_entry(&at->record.cells[i], cell);
	}
}
