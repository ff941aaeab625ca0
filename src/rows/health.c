#include "rows/health.h"
#include "rows/health_cells.h"

#define FOR_EVER 1 /* in the generation of a phase, beside ended */

/* The phase */

static struct cell pack(const struct health_state *health, uint32_t tag)
{
	uint32_t word = health->phase | health->flying << 3 | health->good << 10 | health->bad << 17 |
	                health->slow << 24;
	bool for_ever = health->since_ns == HEALTH_FOR_EVER;

	return cell_make(tag, for_ever ? 0 : health->since_ns, word,
	                 health->ended << 1 | (for_ever ? FOR_EVER : 0));
}

static struct health_state unpack(struct cell cell, uint32_t tag, uint64_t now_ns)
{
	uint32_t word = cell_word(cell);
	uint64_t since_ns = now_ns + (uint64_t)cell_ahead_ns(cell, now_ns);
	bool for_ever = cell_generation(cell) & FOR_EVER;

	if (cell_tag(cell) != tag)
		return (struct health_state){.phase = HEALTH_CLOSED};
	return (struct health_state){.phase = word & 7,
	                             .since_ns = for_ever ? HEALTH_FOR_EVER : since_ns,
	                             .flying = word >> 3 & 127,
	                             .good = word >> 10 & 127,
	                             .bad = word >> 17 & 127,
	                             .slow = word >> 24 & 127,
	                             .ended = cell_generation(cell) >> 1};
}

bool health_row_turn(const struct row_state *at, const struct health_look *look,
                     const struct health_state *after)
{
	return health_row_swap(at, HEALTH_PHASE_AT, look->phase, pack(after, at->row.tag));
}

/* Flights */

static bool flies(const struct health_params *params, struct cell cell, uint32_t tag)
{
	return cell_tag(cell) == tag && cell_word(cell) - 1 < HEALTH_FLIGHTS_MAX &&
	       cell_generation(cell) == params->flight_mark;
}

static struct cell flight(const struct health_params *params, uint32_t tag, uint64_t until_ns,
                          uint32_t count)
{
	return cell_make(tag, until_ns, count, params->flight_mark);
}

void health_row_phase(const struct algo_limit *limit, uint64_t now_ns, const struct row *row,
                      struct health_look *look)
{
	struct health_state kept;

	*look = (struct health_look){.first_ns = UINT64_MAX, .phase = row_load(row, HEALTH_PHASE_AT)};
	kept = unpack(look->phase, row->tag, now_ns);
	look->health = health_at(&limit->health, &kept, now_ns);
}

static void look_at_flight(const struct health_params *params, uint64_t now_ns,
                           const struct row *row, unsigned place, struct health_look *look)
{
	struct cell cell = cell_peek(&row->cells[place]);
	int64_t ahead_ns = cell_ahead_ns(cell, now_ns);
	uint64_t own_ns = look->health.since_ns + params->timeout_ns;

	if (!flies(params, cell, row->tag))
		return;
	/* Or a clock that was set back since has put it too far ahead. */
	if (ahead_ns <= 0 || ahead_ns > (int64_t)(params->timeout_ns + ALGO_SKEW_NS)) {
		look->overdue = place;
		return;
	}
	look->in_flight += cell_word(cell);
	look->own += cell_ahead_ns(cell, own_ns) >= 0 ? cell_word(cell) : 0;
	look->first_ns = u64_min(look->first_ns, (uint64_t)ahead_ns);
	look->last_ns = u64_max(look->last_ns, (uint64_t)ahead_ns);
}

void health_row_look(const struct algo_limit *limit, uint64_t now_ns, const struct row *row,
                     struct health_look *look)
{
	const struct health_params *params = &limit->health;
	unsigned cells = health_flight_cells(params), stride = health_stride(params);
	unsigned stripes = health_stripes(params);

	*look = (struct health_look){.first_ns = UINT64_MAX};
	if (!row->cells)
		return;
	health_row_phase(limit, now_ns, row, look);
	for (unsigned stripe = 0; stripe < stripes; stripe++)
		for (unsigned i = 0; i < cells; i++)
			look_at_flight(params, now_ns, row, HEALTH_FLIGHT_AT + stripe * stride + i, look);
}

/* The cell in which permits of one time are counted together. */
static unsigned part_place(const struct health_params *params, uint64_t start_ns, unsigned stripe)
{
	return HEALTH_FLIGHT_AT + stripe * health_stride(params) +
	       (unsigned)(health_flight(params, start_ns) % HEALTH_FLIGHT_PARTS);
}

static enum health_taken take_together(const struct health_params *params,
                                       const struct row_state *at, struct health_permit permit,
                                       uint64_t now_ns, uint64_t *last_ns)
{
	unsigned place = part_place(params, permit.start_ns, permit.stripe);
	struct cell before = row_load(&at->row, place), after;
	uint64_t until_ns = permit.until_ns;
	uint32_t count = 0;

	if (flies(params, before, at->row.tag)) {
		int64_t more_ns = cell_ahead_ns(before, until_ns);

		if (cell_ahead_ns(before, now_ns) <= 0)
			return HEALTH_AGAIN; /* it has to end first */
		count = cell_word(before);
		until_ns += more_ns > 0 ? (uint64_t)more_ns : 0;
		if (count == HEALTH_FLIGHTS_MAX)
			return HEALTH_FULL;
	}
	*last_ns = until_ns;
	after = flight(params, at->row.tag, until_ns, count + 1);
	return health_row_swap(at, place, before, after) ? HEALTH_TAKEN : HEALTH_AGAIN;
}

/* The flight from which a permit's is looked for: threads seldom meet there. */
static unsigned first_place(const struct health_params *params, uint64_t until_ns)
{
	uint32_t mixed = (uint32_t)((until_ns * UINT64_C(0x9e3779b97f4a7c15)) >> 32);

	return (unsigned)((uint64_t)mixed * params->max_concurrent >> 32);
}

enum health_taken health_row_take(const struct algo_limit *limit, const struct row_state *at,
                                  struct health_permit permit, uint64_t now_ns, uint64_t *last_ns)
{
	const struct health_params *params = &limit->health;
	unsigned i = 0;

	if (params->max_concurrent == 0)
		return take_together(params, at, permit, now_ns, last_ns);
	*last_ns = permit.until_ns;
	i = first_place(params, permit.until_ns);
	for (unsigned n = 0; n < params->max_concurrent; n++, i = (i + 1) % params->max_concurrent) {
		struct cell before = row_load(&at->row, HEALTH_FLIGHT_AT + i);
		struct cell after = flight(params, at->row.tag, permit.until_ns, 1);

		if (!flies(params, before, at->row.tag) &&
		    health_row_swap(at, HEALTH_FLIGHT_AT + i, before, after))
			return HEALTH_TAKEN;
	}
	return HEALTH_FULL;
}

static unsigned find_together(const struct health_params *params, const struct row_state *at,
                              struct health_permit permit, struct cell *cell)
{
	unsigned place = part_place(params, permit.start_ns, permit.stripe);

	for (;;) {
		*cell = row_load(&at->row, place);
		if (flies(params, *cell, at->row.tag) && cell_ahead_ns(*cell, permit.until_ns) >= 0)
			return place;
		if (!permit.has_no_id || ++permit.stripe == health_stripes(params))
			return 0;
		place += health_stride(params);
	}
}

/* The place of the flight that counts it, or 0. */
static unsigned find(const struct algo_limit *limit, const struct row_state *at,
                     struct health_permit permit, struct cell *cell)
{
	const struct health_params *params = &limit->health;
	unsigned i;

	if (params->max_concurrent == 0)
		return find_together(params, at, permit, cell);
	i = first_place(params, permit.until_ns);
	for (unsigned n = 0; n < params->max_concurrent; n++, i = (i + 1) % params->max_concurrent) {
		*cell = row_load(&at->row, HEALTH_FLIGHT_AT + i);
		if (flies(params, *cell, at->row.tag) && cell_ahead_ns(*cell, permit.until_ns) == 0)
			return HEALTH_FLIGHT_AT + i;
	}
	return 0;
}

bool health_row_has(const struct algo_limit *limit, const struct row_state *at,
                    struct health_permit permit)
{
	struct cell cell;

	return find(limit, at, permit, &cell) != 0;
}

bool health_row_give(const struct algo_limit *limit, const struct row_state *at,
                     struct health_permit permit)
{
	struct cell before, after;
	unsigned place;

	do {
		place = find(limit, at, permit, &before);
		if (place == 0)
			return false;
		after = (struct cell){before.low - 1, before.high};
	} while (!cell_swap(&at->row.cells[place], before, after));
	return true;
}

uint64_t health_row_end(const struct health_params *params, const struct row_state *at,
                        unsigned place, uint64_t now_ns, uint64_t *until_ns)
{
	struct cell before = row_load(&at->row, place);
	uint32_t count = cell_word(before);

	*until_ns = now_ns + (uint64_t)cell_ahead_ns(before, now_ns);
	if (!flies(params, before, at->row.tag) ||
	    !cell_swap(&at->row.cells[place], before, flight(params, at->row.tag, *until_ns, 0)))
		return 0;
	return count;
}

void health_row_end_all(const struct algo_limit *limit, const struct row_state *at,
                        uint64_t now_ns)
{
	unsigned stride = health_stride(&limit->health), stripes = health_stripes(&limit->health);
	uint64_t until_ns;

	for (unsigned stripe = 0; stripe < stripes; stripe++)
		for (unsigned i = 0; i < health_flight_cells(&limit->health); i++)
			health_row_end(&limit->health, at, HEALTH_FLIGHT_AT + stripe * stride + i, now_ns, &until_ns);
}

/* Calm: a call needs a few cells, and little else, so nothing of it goes through memory */

#define FLAT __attribute__((flatten))

FLAT uint64_t health_row_try(const struct algo_limit *limit, const struct row_state *at, uint64_t id,
                             uint64_t now_ns, struct algo_outcome *out)
{
	const struct health_params *params = &limit->health;
	struct health_permit permit = health_permit_of(params, now_ns + params->timeout_ns, id);
	struct health_look look;
	uint64_t last_ns;

	if (params->max_concurrent || !health_row_is_calm(limit, now_ns, &at->row, &look) ||
	    take_together(params, at, permit, now_ns, &last_ns) != HEALTH_TAKEN)
		return 0;
	health_calm_outcome(out);
	out->remaining = ALGO_COUNT_MAX;
	out->reset_after_ns = u64_max(last_ns - now_ns, health_row_ahead_ns(params, now_ns));
	return permit.until_ns;
}

FLAT bool health_row_try_report(const struct algo_limit *limit, const struct row_state *at,
                                const struct health_report *report, uint64_t now_ns)
{
	const struct health_params *params = &limit->health;
	struct health_permit permit = health_permit_of(params, report->until_ns, report->permit);
	uint64_t latency_ns = report->latency_ns ? report->latency_ns : sat_sub(now_ns, permit.start_ns);
	struct health_result result = health_result_of(params, report->outcome, latency_ns);
	struct health_look look;

	if (result.failed || result.slow || report->until_ns <= now_ns ||
	    !health_row_is_calm(limit, now_ns, &at->row, &look) ||
	    !health_counts(&look.health, permit.start_ns) || !health_row_give(limit, at, permit))
		return false;
	if (!result.ignored)
		health_row_count(limit, at, &look, &(struct health_ends){result, 1, now_ns, permit.stripe},
		                 now_ns);
	return true;
}

/* The head */

/* Closed: permits, and then a window that their ends may be counted in. */
static uint64_t needs_ns(const struct algo_limit *limit, const struct health_state *health,
                         uint64_t now_ns)
{
	const struct health_params *params = &limit->health;
	uint64_t window_ns = params->part_ns ? (params->parts + 2) * params->part_ns : HEALTH_LEAST_NS;

	return u64_max(params->timeout_ns + health_flight_ns(params) + window_ns,
	               u64_min(health_ahead_ns(params, health, now_ns), ALGO_HORIZON_NS / 2));
}

static bool must_be_held(const struct health_state *health)
{
	return health->phase != HEALTH_CLOSED;
}

bool health_row_fits(const struct algo_limit *limit, struct cell head, uint32_t tag,
                     const struct health_state *health, uint64_t now_ns)
{
	return cell_tag(head) == tag && cell_is_held(head) == must_be_held(health) &&
	       cell_ahead_ns(head, now_ns + needs_ns(limit, health, now_ns)) >= 0;
}

struct cell health_row_head(const struct algo_limit *limit, uint32_t tag,
                            const struct health_state *health, uint64_t now_ns)
{
	uint64_t ahead_ns = u64_min(2 * needs_ns(limit, health, now_ns), ALGO_HORIZON_NS);

	return cell_make(tag, now_ns + ahead_ns, 0, must_be_held(health) ? CELL_HELD : 0);
}

/* Calm */

/* The name of the kept phase, judged by these parameters. One other in 2^32 has the same. */
static uint64_t calm_name(const struct health_params *params, struct cell phase, uint32_t tag)
{
	uint64_t mixed = phase.low ^ (phase.high ^ params->seal) * UINT64_C(0xff51afd7ed558ccd);

	if (cell_tag(phase) != tag)
		mixed = (uint64_t)tag << 32 ^ params->seal;
	return mixed * UINT64_C(0x9e3779b97f4a7c15) >> 32;
}

bool health_row_is_calm(const struct algo_limit *limit, uint64_t now_ns, const struct row *row,
                        struct health_look *look)
{
	struct cell calm = row_load(row, HEALTH_CALM_AT);

	look->phase = row_load(row, HEALTH_PHASE_AT);
	/* For an earlier time the difference is far greater than any span. */
	if (now_ns - calm.high >= (uint32_t)calm.low ||
	    calm.low >> 32 != calm_name(&limit->health, look->phase, row->tag))
		return false;
	look->health = unpack(look->phase, row->tag, now_ns);
	look->health.phase = HEALTH_CLOSED; /* by time, where it was kept as a ramp */
	return true;
}

/* How long from now until a part of that length ends. */
static uint64_t rest_of(uint64_t now_ns, uint64_t part, uint64_t part_ns)
{
	return (part + 1) * part_ns - now_ns;
}

void health_row_calm(const struct algo_limit *limit, const struct row_state *at,
                     const struct health_look *look, uint64_t now_ns)
{
	const struct health_params *params = &limit->health;
	struct health_state kept = unpack(look->phase, at->row.tag, now_ns);
	struct cell before = row_load(&at->row, HEALTH_CALM_AT), after = {0, now_ns};
	uint64_t span_ns = u64_min(look->first_ns, UINT32_MAX);
	int64_t head_ns = cell_ahead_ns(at->head, now_ns + needs_ns(limit, &look->health, now_ns));

	if (look->health.phase != HEALTH_CLOSED || kept.since_ns != look->health.since_ns ||
	    kept.since_ns > now_ns || look->last_ns > params->timeout_ns || head_ns <= 0 ||
	    cell_is_held(at->head))
		return;
	if (params->part_ns)
		span_ns = u64_min(span_ns, rest_of(now_ns, health_part(params, now_ns), params->part_ns));
	span_ns = u64_min(span_ns, rest_of(now_ns, health_flight(params, now_ns),
	                                   health_flight_ns(params)));
	span_ns = u64_min(span_ns, (uint64_t)head_ns);
	after.low = calm_name(params, look->phase, at->row.tag) << 32 | span_ns;
	health_row_swap(at, HEALTH_CALM_AT, before, after);
}
