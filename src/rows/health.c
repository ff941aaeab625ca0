#include "rows/health.h"
#include "rows/health_cells.h"

#define FOR_EVER 1 /* in the generation of a phase, beside ended */

/* The phase */

static struct cell pack(const struct health_state *health, uint32_t tag)
{
	bool is_open = health->phase == HEALTH_OPEN;
	uint32_t word = health->phase | (is_open ? health->doublings : health->flying) << 3 |
	                (is_open ? health->spread : health->good) << 10 | health->bad << 17 |
	                health->slow << 24;
	bool for_ever = health->since_ns == HEALTH_FOR_EVER;

	return cell_make(tag, for_ever ? 0 : health->since_ns, word,
	                 health->ended << 1 | (for_ever ? FOR_EVER : 0));
}

static struct health_state unpack(struct cell cell, uint32_t tag, uint64_t now_ns)
{
	struct health_state health;
	uint32_t word = cell_word(cell);
	uint64_t since_ns = now_ns + (uint64_t)cell_ahead_ns(cell, now_ns);
	bool for_ever = cell_generation(cell) & FOR_EVER;

	if (cell_tag(cell) != tag)
		return (struct health_state){.phase = HEALTH_CLOSED};
	health = (struct health_state){.phase = word & 7,
	                               .since_ns = for_ever ? HEALTH_FOR_EVER : since_ns,
	                               .ended = cell_generation(cell) >> 1};
	if (health.phase == HEALTH_OPEN) {
		health.doublings = word >> 3 & 127;
		health.spread = word >> 10 & 127;
	} else {
		health.flying = word >> 3 & 127;
		health.good = word >> 10 & 127;
		health.bad = word >> 17 & 127;
		health.slow = word >> 24 & 127;
	}
	return health;
}

/* The doublings of the open phase before a half-open one. */
__attribute__((noinline, cold)) static unsigned doublings_before(const struct row *row,
                                                                 uint64_t since_ns)
{
	struct cell sleep = row_load(row, HEALTH_SLEEP_AT);
	bool is_own = cell_tag(sleep) == row->tag && cell_ahead_ns(sleep, since_ns) <= 0;

	return is_own ? cell_word(sleep) & HEALTH_DOUBLINGS_MAX : 0;
}

/*
 * Before a phase turns half-open. All calls that turn the same open phase write the same; if that
 * phase has ended, whoever ended it has changed the cell, so that this swap fails.
 */
__attribute__((noinline, cold)) static void write_sleep(const struct row_state *at,
                                                        const struct health_look *look,
                                                        const struct health_state *after)
{
	bool was_open = look->health.phase == HEALTH_OPEN;
	struct cell before = row_load(&at->row, HEALTH_SLEEP_AT), phase;
	struct cell sleep = cell_make(at->row.tag, was_open ? look->health.since_ns : after->since_ns,
	                              after->doublings, 0);

	phase = row_load(&at->row, HEALTH_PHASE_AT);
	if (cell_bits(before) != cell_bits(sleep) && cell_bits(phase) == cell_bits(look->phase))
		row_swap(at, HEALTH_SLEEP_AT, before, sleep);
}

bool health_row_turn(const struct row_state *at, struct health_look *look,
                     const struct health_state *after)
{
	struct cell phase = pack(after, at->row.tag);

	if (after->phase == HEALTH_HALF_OPEN && look->health.phase != HEALTH_HALF_OPEN)
		write_sleep(at, look, after);
	if (!row_swap(at, HEALTH_PHASE_AT, look->phase, phase))
		return false;
	look->phase = phase;
	look->health = *after;
	return true;
}

/* Flights */

/* Closed: permits, and then a window that their ends may be counted in. */
static uint64_t needs_ns(const struct algo_limit *limit, const struct health_state *health,
                         uint64_t now_ns)
{
	const struct health_params *params = &limit->health;
	uint64_t window_ns = params->part_ns ? (params->parts + 2) * params->part_ns : HEALTH_LEAST_NS;

	return u64_max(params->timeout_ns + health_flight_ns(params) + window_ns,
	               u64_min(health_ttl_ns(params, health, now_ns), ALGO_HORIZON_NS / 2));
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
	if (__builtin_expect(kept.phase == HEALTH_HALF_OPEN, 0))
		kept.doublings = doublings_before(row, kept.since_ns);
	look->health = health_at(&limit->health, &kept, now_ns);
}

struct places {
	unsigned first, end; /* before the end */
};

/* Ends a flight whose time is over. Nothing is counted here: its permits count in the newest row. */
__attribute__((noinline, cold)) static void sweep_out(const struct health_params *params,
                                                      uint64_t now_ns, struct cell *at,
                                                      struct cell flight,
                                                      const struct health_look *look,
                                                      struct health_sweep *sweep)
{
	uint64_t until_ns = now_ns + (uint64_t)cell_ahead_ns(flight, now_ns);
	uint64_t over_ns = u64_min(until_ns, now_ns), before = 0;

	if (!health_end(at, flight) || !health_counts(&look->health, until_ns - params->timeout_ns))
		return;
	sweep->lost += cell_word(flight);
	sweep->first_ns = sweep->first_ns ? u64_min(sweep->first_ns, until_ns) : until_ns;
	sweep->last_ns = u64_max(sweep->last_ns, until_ns);
	if (params->part_ns)
		before = health_part(params, now_ns) - health_part(params, over_ns);
	if (before < HEALTH_PARTS_MAX + 2)
		sweep->lost_in[before] += cell_word(flight);
}

/* A list with so many groups gets no more. */
static void list(struct health_list *list, struct cell *at, struct cell flight, uint64_t ahead_ns)
{
	if (cell_generation(flight) & 1) {
		newest_add(&list->alone, ahead_ns);
	} else if (list->grouped < HEALTH_GROUPS_MAX) {
		list->groups[list->grouped++] = (struct health_group){at, ahead_ns};
	}
}

/* A permit that is no probe in time: of before the phase, or lost. */
__attribute__((noinline, cold)) static void look_at_lost(const struct health_params *params,
                                                         struct cell cell, struct health_look *look)
{
	uint64_t first_ns = look->health.since_ns + params->timeout_ns;
	int64_t more_ns = cell_ahead_ns(cell, first_ns);

	if (more_ns >= 0)
		look->lost_ns = health_lost_ns(params, look->lost_ns,
		                               health_probe_end_ns(params, first_ns + (uint64_t)more_ns));
}

static void look_at_flight(const struct health_params *params, uint64_t now_ns,
                           const struct row *row, unsigned place, struct health_look *look,
                           struct health_sweep *sweep)
{
	struct cell cell = cell_peek(&row->cells[place]);
	int64_t ahead_ns = cell_ahead_ns(cell, now_ns);
	uint64_t own_ns = u64_max(look->health.since_ns, sat_sub(now_ns + 1, params->probe_ns)) +
	                  params->timeout_ns;

	if (!health_flies_anyhow(params, cell, row->tag))
		return;
	if (health_is_overdue(params, ahead_ns)) {
		if (sweep)
			sweep_out(params, now_ns, &row->cells[place], cell, look, sweep);
		look->overdue |= !sweep;
		return;
	}
	look->in_flight += cell_word(cell);
	if (cell_ahead_ns(cell, own_ns) >= 0)
		look->own += cell_word(cell);
	else if (look->health.phase == HEALTH_HALF_OPEN)
		look_at_lost(params, cell, look);
	look->first_ns = u64_min(look->first_ns, (uint64_t)ahead_ns);
	look->last_ns = u64_max(look->last_ns, (uint64_t)ahead_ns);
	if (__builtin_expect(sweep && sweep->list, 0))
		list(sweep->list, &row->cells[place], cell, (uint64_t)ahead_ns);
}

/* Most cells count no permit, and their low words say so. */
static void look_at_flights(const struct health_params *params, uint64_t now_ns,
                            const struct row *row, struct places places, struct health_look *look,
                            struct health_sweep *sweep)
{
	for (unsigned i = places.first; i < places.end; i++)
		if (health_may_fly(health_low(row, i), row->tag))
			look_at_flight(params, now_ns, row, i, look, sweep);
}

/* A half-open phase that began in a mixed row keeps it mixed: the cells say when probes were lost. */
static void look_at_layout(uint64_t now_ns, const struct row *row, struct health_look *look)
{
	struct cell layout = row_load(row, HEALTH_LAYOUT_AT);
	uint64_t since_ns = look->health.phase == HEALTH_HALF_OPEN ? look->health.since_ns : now_ns;

	look->mixed = cell_tag(layout) == row->tag && cell_ahead_ns(layout, since_ns) > 0;
}

void health_row_look(const struct algo_limit *limit, uint64_t now_ns, const struct row *row,
                     struct health_look *look, struct health_sweep *sweep)
{
	const struct health_params *params = &limit->health;
	unsigned cells = health_flight_cells(params), stride = health_stride(params);
	unsigned stripes = health_stripes(params), at = health_flights_at(params);

	if (!row->cells) {
		*look = (struct health_look){.first_ns = UINT64_MAX};
		return;
	}
	health_row_phase(limit, now_ns, row, look);
	look_at_layout(now_ns, row, look);
	if (look->mixed) {
		health_row_look_former(limit, now_ns, row, look, sweep);
		return;
	}
	for (unsigned stripe = 0; stripe < stripes; stripe++, at += stride)
		look_at_flights(params, now_ns, row, (struct places){at, at + cells}, look, sweep);
}

void health_row_look_former(const struct algo_limit *limit, uint64_t now_ns, const struct row *row,
                            struct health_look *look, struct health_sweep *sweep)
{
	look_at_flights(&limit->health, now_ns, row, (struct places){HEALTH_FIRST_STRIPE, row->width},
	                look, sweep);
}

/* The cell in which permits of one time are counted together. */
static unsigned part_place(const struct health_params *params, uint64_t start_ns, unsigned stripe)
{
	return health_flights_at(params) + stripe * health_stride(params) +
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

	if (health_flies(params, before, at->row.tag)) {
		int64_t more_ns = cell_ahead_ns(before, until_ns);

		if (cell_ahead_ns(before, now_ns) <= 0)
			return HEALTH_AGAIN; /* it has to end first */
		count = cell_word(before);
		until_ns += more_ns > 0 ? (uint64_t)more_ns : 0;
		if (count == HEALTH_FLIGHTS_MAX)
			return HEALTH_FULL;
	} else if (health_flies_anyhow(params, before, at->row.tag)) {
		return HEALTH_FULL; /* there is a permit of a former max_concurrent */
	}
	*last_ns = until_ns;
	after = flight(params, at->row.tag, until_ns, count + 1);
	return row_swap(at, place, before, after) ? HEALTH_TAKEN : HEALTH_AGAIN;
}

/* The places in which a permit may have a cell of its own, and the first that is tried. */
struct flight_cells {
	unsigned at, count, first;
	uint64_t until_ns;
};

/* Whether a cell has results that may count still. */
static bool has_results(struct cell cell, uint32_t tag)
{
	return cell_tag(cell) == tag && cell_word(cell) >= HEALTH_NAME_BIT;
}

/* A cell of its own for a permit: from `first` on, one of so many that are free. */
static enum health_taken take_cell(const struct algo_limit *limit, const struct row_state *at,
                                   const struct health_look *look, struct flight_cells of,
                                   uint64_t now_ns)
{
	const struct health_params *params = &limit->health;
	struct cell after = cell_make(at->row.tag, of.until_ns, 1, params->flight_mark | 1u), results;
	uint32_t tag = at->row.tag;
	unsigned spare = 0; /* a place of results */

	for (unsigned n = 0; n < of.count; n++) {
		unsigned place = of.at + (of.first + n) % of.count;
		struct cell before = row_load(&at->row, place);

		if (health_flies_anyhow(params, before, tag))
			continue;
		if (!has_results(before, tag)) {
			if (row_swap(at, place, before, after))
				return HEALTH_TAKEN;
		} else if (spare == 0) {
			spare = place;
		}
	}
	if (spare == 0)
		return HEALTH_FULL;
	/* Results make room only if nothing else does. */
	results = row_load(&at->row, spare);
	if (!has_results(results, tag) || !row_swap(at, spare, results, after))
		return HEALTH_AGAIN;
	health_row_count_again(limit, at, look, results, now_ns);
	return HEALTH_TAKEN;
}

/* The row is mixed for as long as what is in it now may count. */
static void mix(const struct algo_limit *limit, const struct row_state *at, struct cell layout,
                uint64_t now_ns)
{
	static const struct health_state closed = {.phase = HEALTH_CLOSED};
	uint64_t until_ns = now_ns + needs_ns(limit, &closed, now_ns);

	row_swap(at, HEALTH_LAYOUT_AT, layout,
	         cell_make(at->row.tag, until_ns, limit->health.layout, 0));
}

void health_row_adopt(const struct algo_limit *limit, const struct row_state *at, uint64_t now_ns)
{
	struct cell layout = row_load(&at->row, HEALTH_LAYOUT_AT);
	uint32_t tag = at->row.tag, own = limit->health.layout;

	if (cell_tag(layout) != tag) { /* it is new */
		row_swap(at, HEALTH_LAYOUT_AT, layout, cell_make(tag, now_ns, own, 0));
	} else if (cell_word(layout) != own) {
		mix(limit, at, layout, now_ns);
		row_swap(at, HEALTH_CALM_AT, row_load(&at->row, HEALTH_CALM_AT),
		         (struct cell){0, 0});
	}
}

enum health_taken health_row_take(const struct algo_limit *limit, const struct row_state *at,
                                  const struct health_look *look, struct health_permit permit,
                                  uint64_t now_ns)
{
	const struct health_params *params = &limit->health;
	unsigned flights = health_flights_at(params);
	struct flight_cells of = {flights, params->max_concurrent, 0, permit.until_ns};
	enum health_taken taken;
	uint64_t last_ns;

	if (params->max_concurrent) {
		of.first = row_start(permit.until_ns, params->max_concurrent);
		return take_cell(limit, at, look, of, now_ns);
	}
	taken = take_together(params, at, permit, now_ns, &last_ns);
	if (taken != HEALTH_FULL)
		return taken;
	/* Its cell has a permit of a former max_concurrent. */
	of.count = at->row.width - flights;
	mix(limit, at, row_load(&at->row, HEALTH_LAYOUT_AT), now_ns);
	return take_cell(limit, at, look, of, now_ns);
}

static unsigned find_together(const struct health_params *params, const struct row_state *at,
                              struct health_permit permit, struct cell *cell)
{
	unsigned place = part_place(params, permit.start_ns, permit.stripe);

	for (;;) {
		if (place >= at->row.width)
			return 0;
		*cell = row_load(&at->row, place);
		if (health_flies(params, *cell, at->row.tag) && cell_ahead_ns(*cell, permit.until_ns) >= 0)
			return place;
		if (!permit.has_no_id || ++permit.stripe == health_stripes(params))
			return 0;
		place += health_stride(params);
	}
}

/* Whether a cell is that of one permit alone, which ends then. */
static bool is_alone(const struct health_params *params, struct cell cell, uint32_t tag,
                     uint64_t until_ns)
{
	return health_flies_anyhow(params, cell, tag) && cell_generation(cell) & 1 &&
	       cell_ahead_ns(cell, until_ns) == 0;
}

/* The cell that a permit has of its own: most likely near where it was taken, else anywhere. */
static unsigned find_alone(const struct health_params *params, const struct row_state *at,
                           struct health_permit permit, struct cell *cell)
{
	unsigned first = HEALTH_FIRST_STRIPE, width = at->row.width, i;

	i = health_flights_at(params) + row_start(permit.until_ns, params->max_concurrent);
	i = i < width ? i : first;
	for (unsigned n = first; n < width; n++, i = i + 1 < width ? i + 1 : first) {
		*cell = row_load(&at->row, i);
		if (is_alone(params, *cell, at->row.tag, permit.until_ns))
			return i;
	}
	return 0;
}

/* The place of a permit that was given before max_concurrent was set, or 0. */
__attribute__((noinline, cold)) static unsigned find_former(const struct health_params *params,
                                                            const struct row_state *at,
                                                            struct health_permit permit,
                                                            struct cell *cell)
{
	struct health_params together = *params;

	together.max_concurrent = 0;
	together.flight_mark &= (uint8_t)~1u;
	permit.stripe = health_stripes(&together) > 1 ? permit.id_stripe : 0;
	return find_together(&together, at, permit, cell);
}

/* The place of the flight that counts it, or 0. */
static unsigned find(const struct algo_limit *limit, const struct row_state *at,
                     struct health_permit permit, struct cell *cell)
{
	const struct health_params *params = &limit->health;
	unsigned place = 0;

	if (permit.place != 0) {
		*cell = row_load(&at->row, permit.place);
		if (is_alone(params, *cell, at->row.tag, permit.until_ns))
			return permit.place;
	}
	if (!permit.alone && params->max_concurrent == 0)
		place = find_together(params, at, permit, cell);
	if (place == 0)
		place = find_alone(params, at, permit, cell);
	if (place == 0 && !permit.alone && params->max_concurrent != 0)
		place = find_former(params, at, permit, cell);
	return place;
}

bool health_row_has(const struct algo_limit *limit, const struct row_state *at,
                    struct health_permit *permit)
{
	struct cell cell;

	permit->place = find(limit, at, *permit, &cell);
	return permit->place != 0;
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

void health_row_end_all(const struct algo_limit *limit, const struct row_state *at)
{
	for (unsigned i = HEALTH_FIRST_STRIPE; i < at->row.width; i++) {
		struct cell cell = row_load(&at->row, i);

		if (health_flies_anyhow(&limit->health, cell, at->row.tag))
			health_end(&at->row.cells[i], cell);
	}
}

/* Calm: a call needs a few cells, and little else, so nothing of it goes through memory */
#define FLAT __attribute__((flatten))

FLAT uint64_t health_row_try(const struct algo_limit *limit, const struct row_state *at,
                             uint64_t id, uint64_t now_ns, struct algo_decision *out)
{
	const struct health_params *params = &limit->health;
	struct health_permit permit = health_permit_of(params, health_until_ns(params, now_ns), id);
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
	    health_is_bare(params, report->until_ns) ||
	    !health_row_is_calm(limit, now_ns, &at->row, &look) ||
	    !health_counts(&look.health, permit.start_ns) || !health_row_give(limit, at, permit))
		return false;
	if (!result.ignored)
		health_row_count(limit, at, &look, &(struct health_ends){result, 1, now_ns, permit.stripe},
		                 now_ns);
	return true;
}

/* The head */

static bool must_be_held(const struct health_state *health)
{
	return health->phase != HEALTH_CLOSED;
}

bool health_row_fits(const struct algo_limit *limit, struct cell head, uint32_t tag,
                     const struct health_state *health, uint64_t now_ns)
{
	return cell_is_pinned(head) == must_be_held(health) &&
	       row_is_kept(head, tag, now_ns + needs_ns(limit, health, now_ns));
}

struct cell health_row_head(const struct algo_limit *limit, uint32_t tag,
                            const struct health_state *health, uint64_t now_ns)
{
	uint64_t ahead_ns = u64_min(2 * needs_ns(limit, health, now_ns), ALGO_HORIZON_NS);

	return cell_make(tag, now_ns + ahead_ns, 0, must_be_held(health) ? CELL_PINNED : 0);
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

	if (look->mixed || look->health.phase != HEALTH_CLOSED ||
	    kept.since_ns != look->health.since_ns || kept.since_ns > now_ns ||
	    look->last_ns > params->timeout_ns || head_ns <= 0 || cell_is_pinned(at->head))
		return;
	if (params->part_ns)
		span_ns = u64_min(span_ns, rest_of(now_ns, health_part(params, now_ns), params->part_ns));
	span_ns = u64_min(span_ns, rest_of(now_ns, health_flight(params, now_ns),
	                                   health_flight_ns(params)));
	span_ns = u64_min(span_ns, (uint64_t)head_ns);
	after.low = calm_name(params, look->phase, at->row.tag) << 32 | span_ns;
	row_swap(at, HEALTH_CALM_AT, before, after);
}
