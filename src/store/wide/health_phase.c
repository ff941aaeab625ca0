/*
 * health_phase.c: opens, probes and closes a key by what its permits' reports say.
 *
 * Each change of the phase is one compare-and-swap of its cell. A change that finds another phase
 * than the one read does nothing, and the caller reads the key anew.
 */
#include "store/wide/health_phase.h"

#include <stddef.h>

/* A new row takes over the phase of a former table's. */
__attribute__((noinline, cold)) static void inherit(struct watch *watch)
{
	const struct row_state *at = &watch->held.rows[0].at;
	struct health_state former = watch->seen.health;

	health_rows_look(watch, NULL);
	if (at->cell && watch->seen.health.since_ns == 0)
		health_row_turn(at, &watch->seen, &former);
}

enum held_kept health_phase_keep(struct watch *watch, const struct health_state *health)
{
	struct held *held = &watch->held;
	const struct row_state *at = &held->rows[0].at;
	uint64_t now_ns = held->now_ns;
	enum held_kept kept;

	if (at->cell && health_row_fits(held->limit, at->head, at->row.tag, health, now_ns))
		return HELD_KEPT;
	kept = held_store(held, health_row_head(held->limit, at->row.tag, health, now_ns));
	if (kept == HELD_CHANGED && !at->cell && watch->seen.health.since_ns > 0)
		inherit(watch);
	return kept;
}

static void note(struct watch *watch, enum health_phase from, enum health_phase to,
                 enum algo_cause cause)
{
	if (from == to)
		return;
	if (watch->turned < ALGO_PHASE_CHANGES_MAX)
		watch->turns[watch->turned++].from = (uint8_t)from;
	watch->turns[watch->turned - 1].to = (uint8_t)to;
	watch->turns[watch->turned - 1].cause = (uint8_t)cause;
}

bool health_phase_change(struct watch *watch, const struct health_state *after,
                         enum algo_cause cause)
{
	enum health_phase from = watch->seen.health.phase;

	if (!health_row_turn(&watch->held.rows[0].at, &watch->seen, after))
		return false;
	note(watch, from, after->phase, cause);
	health_phase_keep(watch, after); /* else the next call does */
	return true;
}

bool health_phase_end_probes(struct watch *watch, struct health_result result, unsigned count,
                             uint64_t at_ns)
{
	struct health_state after = watch->seen.health;
	struct algo_notification told = watch->told ? *watch->told : (struct algo_notification){0};

	health_end_probes(&watch->held.limit->health, &after, result, count, at_ns,
	                  watch->told ? &told : NULL);
	if (!health_phase_change(watch, &after,
	                         after.phase == HEALTH_OPEN ? ALGO_BY_BAD_PROBE : ALGO_BY_GOOD_PROBES))
		return false;
	if (watch->told)
		*watch->told = told;
	return true;
}

/*
 * Opens it, if the window says so. Whether it did; what others do meanwhile, they judge. A fleet
 * opens it itself. A call `has_counted` if it has added to the part of now.
 */
static bool judge(struct watch *watch, bool has_counted)
{
	struct health_state after = watch->seen.health;
	struct health_tally tally;
	enum algo_cause cause;

	if (after.phase > HEALTH_RAMP)
		return false;
	health_rows_tally(watch, &tally);
	cause = health_trip_cause(&watch->held.limit->health, &tally);
	if (cause == ALGO_BY_NOTHING) {
		if (has_counted && watch->held.count == 1 &&
		    tally.calls >= watch->held.limit->health.minimum)
			health_row_calm(watch->held.limit, &watch->held.rows[0].at, &watch->seen,
			                watch->held.now_ns);
		return false;
	}
	if (watch->told) {
		watch->told->trips = true;
		return false;
	}
	health_open(&after, watch->held.now_ns);
	health_phase_change(watch, &after, cause);
	return true;
}

void health_phase_count(struct watch *watch, struct health_ends ends)
{
	if (ends.result.ignored)
		return;
	health_row_count(watch->held.limit, &watch->held.rows[0].at, &watch->seen, &ends,
	                 watch->held.now_ns);
	judge(watch, ends.at_ns == watch->held.now_ns);
}

/* A permit that nobody has reported in its time. */
static struct health_result timed_out(const struct watch *watch)
{
	return health_result_of(&watch->held.limit->health, WEIR_OUTCOME_TIMEOUT,
	                        watch->held.limit->health.timeout_ns);
}

/* Counts those permits in the parts in which their time was over. Whether the window trips. */
static bool count_lost(struct watch *watch, const struct health_sweep *sweep)
{
	const struct health_params *params = &watch->held.limit->health;
	struct health_ends ends = {.result = timed_out(watch), .at_ns = watch->held.now_ns};

	for (unsigned before = 0; before < HEALTH_PARTS_MAX + 2; before++) {
		ends.count = sweep->lost_in[before];
		ends.at_ns = sat_sub(watch->held.now_ns, before * params->part_ns);
		if (ends.count > 0)
			health_row_count(watch->held.limit, &watch->held.rows[0].at, &watch->seen, &ends,
			                 watch->held.now_ns);
	}
	return judge(watch, false);
}

/* In half-open, probes that fly by the phase but not by the row are lost, however that came. */
void health_phase_settle(struct watch *watch, struct health_list *list)
{
	for (;;) {
		struct health_sweep sweep = {.list = list};
		const struct health_state *health = &watch->seen.health;
		const struct health_params *params;
		uint64_t lost_ns;

		if (list) {
			newest_begin(&list->alone, list->alone.n);
			list->grouped = 0;
		}
		health_rows_look(watch, &sweep);
		params = &watch->held.limit->health;
		if (sweep.lost > 0 && health->phase == HEALTH_HALF_OPEN)
			health_rows_note_lost(watch, &sweep);
		else if (sweep.lost > 0 && count_lost(watch, &sweep) && health->phase <= HEALTH_RAMP)
			continue; /* others have changed the phase meanwhile */
		if (watch->seen.overdue ||
		    (health->phase == HEALTH_HALF_OPEN && health->flying > watch->seen.own)) {
			/* What they say counts in the newest table, where the key has no row yet. */
			if (!watch->held.rows[0].at.cell) {
				if (health_phase_keep(watch, health) == HELD_NO_ROOM)
					return;
				continue;
			}
			lost_ns = health_lost_ns(params, watch->lost_ns, watch->seen.lost_ns);
			health_phase_end_probes(
			    watch, timed_out(watch), health->flying - (unsigned)watch->seen.own,
			    lost_ns ? u64_min(lost_ns, watch->held.now_ns) : watch->held.now_ns);
		} else if (!params->finished_only || !watch->held.rows[0].at.cell || !judge(watch, false)) {
			return; /* else parts have finished since the last report */
		}
	}
}
