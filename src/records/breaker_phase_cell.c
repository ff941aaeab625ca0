/*
 * breaker_phase_cell.c: reads and changes the phase of a circuit breaker's key (closed, open,
 * half-open). A cell of the key's record stores it, and is changed by one swap.
 */
#include "records/breaker_record.h"
#include "records/breaker_cells.h"

/* The doublings of the open phase before a half-open one. */
__attribute__((noinline, cold)) static unsigned doublings_before(const struct record *record,
                                                                 uint64_t since_ns)
{
	struct cell sleep = record_load(record, BREAKER_SLEEP_AT);
	bool is_own = cell_tag(sleep) == record->tag && cell_ahead_ns(sleep, since_ns) <= 0;

	return is_own ? cell_word(sleep) & BREAKER_DOUBLINGS_MAX : 0;
}

/* Reads the phase into `snapshot`, as it is at now_ns, and no permits. */
void breaker_record_read_phase(const struct algo_limit *limit, uint64_t now_ns,
                               const struct record *record, struct breaker_snapshot *snapshot)
{
	struct breaker_state stored;

	*snapshot = (struct breaker_snapshot){.first_ends_in_ns = UINT64_MAX,
	                                      .phase_cell = record_load(record, BREAKER_PHASE_AT)};
	stored = breaker_unpack_phase(snapshot->phase_cell, record->tag, now_ns);
	if (__builtin_expect(stored.phase == BREAKER_HALF_OPEN, 0))
		stored.doublings = doublings_before(record, stored.since_ns);
	snapshot->state = breaker_at(&limit->breaker, &stored, now_ns);
}

/* An open phase stores its doublings (of the sleep) and spread where others count probes. */
static struct cell pack_phase(const struct breaker_state *state, uint32_t tag)
{
	bool is_open = state->phase == BREAKER_OPEN;
	uint32_t word = state->phase | (is_open ? state->doublings : state->probes_in_flight) << 3 |
	                (is_open ? state->spread : state->good) << 10 | state->bad << 17 |
	                state->slow << 24;
	bool for_ever = state->since_ns == BREAKER_FOREVER;

	return cell_make(tag, for_ever ? 0 : state->since_ns, word,
	                 state->ended << 1 | (for_ever ? BREAKER_PHASE_FOR_EVER : 0));
}

/*
 * Stores how often the sleep of the open phase was doubled, before the phase changes to half-open,
 * whose cell has no space for it. All calls that change the same open phase store the same. If that
 * phase has ended, the call that ended it has changed the cell, so that this swap fails.
 */
__attribute__((noinline, cold)) static void store_doublings(const struct record_state *at,
                                                            const struct breaker_snapshot *snapshot,
                                                            const struct breaker_state *after)
{
	bool was_open = snapshot->state.phase == BREAKER_OPEN;
	struct cell before = record_load(&at->record, BREAKER_SLEEP_AT), phase;
	struct cell sleep = cell_make(
	    at->record.tag, was_open ? snapshot->state.since_ns : after->since_ns, after->doublings, 0);

	phase = record_load(&at->record, BREAKER_PHASE_AT);
	if (cell_bits(before) != cell_bits(sleep) &&
	    cell_bits(phase) == cell_bits(snapshot->phase_cell))
		record_swap(at, BREAKER_SLEEP_AT, before, sleep);
}

/* Swaps the snapshot's phase for `after`. Returns false if another thread has changed it. */
bool breaker_record_change_phase(const struct record_state *at, struct breaker_snapshot *snapshot,
                                 const struct breaker_state *after)
{
	struct cell phase = pack_phase(after, at->record.tag);

	if (after->phase == BREAKER_HALF_OPEN && snapshot->state.phase != BREAKER_HALF_OPEN)
		store_doublings(at, snapshot, after);
	if (!record_swap(at, BREAKER_PHASE_AT, snapshot->phase_cell, phase))
		return false;
	snapshot->phase_cell = phase;
	snapshot->state = *after;
	return true;
}
