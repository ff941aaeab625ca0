/*
 * estimate.c: runs the estimators of adaptive limits (knee.c, published.c) on a state that is
 * packed into cells, and reads the estimated limit, the quota, from it.
 *
 * A cell has 96 bits, and a store changes one cell at once. So a step makes at most one change, of
 * one cell. For a report of a request's latency the caller repeats the step until no change is
 * left. A denial matters to bbr only.
 */
#include "algo/measured/estimate.h"

#include "base/number.h"

/* Always inlined, so that a caller that needs one field of a cell reads no other. */
#define INLINE __attribute__((always_inline)) static inline

/* A cell whose fields are written or read in turn, from the lowest bit on. */
struct bits {
	u128 cell;
	unsigned next_bit;
};

INLINE void write_bits(struct bits *bits, uint64_t value, unsigned width)
{
	bits->cell |= (u128)value << bits->next_bit;
	bits->next_bit += width;
}

INLINE uint64_t read_bits(struct bits *bits, unsigned width)
{
	uint64_t value = (uint64_t)(bits->cell >> bits->next_bit) & (UINT64_MAX >> (64 - width));

	bits->next_bit += width;
	return value;
}

INLINE struct bits bits_of(struct estimate_cell cell)
{
	return (struct bits){(u128)cell.high << 32 | cell.low, 0};
}

static struct estimate_cell cell_of(struct bits bits)
{
	return (struct estimate_cell){(uint64_t)(bits.cell >> 32), (uint32_t)bits.cell};
}

static bool is_unwritten(struct estimate_cell cell)
{
	return cell.high == 0 && cell.low == 0;
}

static uint64_t clamp_to_bounds(uint64_t value, const struct in_flight_params *params)
{
	return value < params->bounds.least ? params->bounds.least
	                                    : u64_min(value, params->bounds.most);
}

/*
 * Sets the change of cell 0 by a report, for estimators of one cell. Returns whether to write it.
 */
static bool change_first_cell(const struct estimate_report *report, struct estimate_cell before,
                              struct estimate_cell after, struct estimate_change *change)
{
	*change = (struct estimate_change){0, after, true, true};
	return !report->counted && (before.high != after.high || before.low != after.low);
}

/*
 * knee: cell 0 has the result of all windows so far, and the number of the current one. Cell 1 has
 * the sums of the current window, and the low bits of its number. A window ends in three changes:
 * its last sample; cell 0, with the next number; cell 1, empty, with that number. So if the numbers
 * differ, the third change is missing.
 */

#define WINDOW_BITS 2
#define BASE_BITS   25

/* Packs cell 0. The baseline is stored as BASE_BITS significant bits, with their shift. */
static struct estimate_cell pack_learned(const struct knee *knee)
{
	unsigned bits = knee->base_ns ? 64 - (unsigned)__builtin_clzll(knee->base_ns) : 0;
	unsigned shift = bits > BASE_BITS ? bits - BASE_BITS : 0;
	struct bits to = {0};

	write_bits(&to, knee->knee, 24);
	write_bits(&to, knee->base_ns >> shift, BASE_BITS);
	write_bits(&to, shift, 4);
	write_bits(&to, knee->limit, 16);
	write_bits(&to, knee->phase, 2);
	write_bits(&to, knee->streak, 3);
	write_bits(&to, knee->windows_since_probe, 6);
	write_bits(&to, (unsigned)__builtin_ctz(knee->probe_interval), 3);
	write_bits(&to, knee->window, 8);
	return cell_of(to);
}

static struct estimate_cell pack_measured(const struct knee *knee)
{
	struct bits to = {0};

	write_bits(&to, knee->window & ((1U << WINDOW_BITS) - 1), WINDOW_BITS);
	write_bits(&to, knee->count, 12);
	write_bits(&to, knee->sum, 24);
	write_bits(&to, knee->squares, 32);
	write_bits(&to, knee->in_flight, 26);
	return cell_of(to);
}

/*
 * An unwritten cell is the state of knee_begin, in window 1: so a zero cell 1 is of another window.
 */
INLINE struct knee learned_of(const struct in_flight_params *params, struct estimate_cell cell)
{
	struct bits from = bits_of(cell);
	struct knee knee = {0};

	if (is_unwritten(cell)) {
		knee_begin(&knee, &params->bounds);
		knee.window = 1;
		return knee;
	}
	knee.knee = (uint32_t)read_bits(&from, 24);
	knee.base_ns = read_bits(&from, BASE_BITS);
	knee.base_ns <<= read_bits(&from, 4);
	knee.limit = (uint32_t)read_bits(&from, 16);
	knee.phase = (enum knee_phase)read_bits(&from, 2);
	knee.streak = (uint8_t)read_bits(&from, 3);
	knee.windows_since_probe = (uint8_t)read_bits(&from, 6);
	knee.probe_interval = (uint8_t)(1U << read_bits(&from, 3));
	knee.window = (uint8_t)read_bits(&from, 8);
	return knee;
}

/* Reads cell 1. Returns false if it is of another window. */
static bool read_measured(struct estimate_cell cell, struct knee *knee)
{
	struct bits from = bits_of(cell);

	if (read_bits(&from, WINDOW_BITS) != (knee->window & ((1U << WINDOW_BITS) - 1)))
		return false;
	knee->count = (uint16_t)read_bits(&from, 12);
	knee->sum = (uint32_t)read_bits(&from, 24);
	knee->squares = (uint32_t)read_bits(&from, 32);
	knee->in_flight = (uint32_t)read_bits(&from, 26);
	return true;
}

/* Sets the change of cell 0. Returns true: it is to be written. */
static bool change_learned(const struct knee *knee, struct estimate_change *change)
{
	*change = (struct estimate_change){.index = 0, .after = pack_learned(knee)};
	return true;
}

/*
 * Sets the change of cell 1. `counts_report`: it counts the report, which needs no further change.
 */
static bool change_measured(const struct knee *knee, bool counts_report,
                            struct estimate_change *change)
{
	*change = (struct estimate_change){.index = 1,
	                                   .after = pack_measured(knee),
	                                   .counts = counts_report,
	                                   .last = counts_report && !knee_is_full(knee)};
	return true;
}

/*
 * Makes the next change that a report needs: begins, ends or adds to a window. Returns false if
 * none is left.
 */
static bool step_knee(const struct in_flight_params *params, const struct estimate_cell *cells,
                      const struct estimate_report *report, struct estimate_change *change)
{
	struct knee knee = learned_of(params, cells[0]), with_sample;
	uint64_t in_flight = report->sample.in_flight;

	if (is_unwritten(cells[0]))
		return change_learned(&knee, change);
	if (!read_measured(cells[1], &knee)) {
		if (knee.base_ns == 0) /* the first window skips `initial` answers, as after knee_begin */
			in_flight = params->bounds.initial + 1;
		knee_begin_window(&knee, in_flight);
		return change_measured(&knee, false, change);
	}
	/* Even a report that is counted already ends the window and begins the next. */
	if (knee_is_full(&knee)) {
		knee_end_window(&knee, &params->bounds);
		return change_learned(&knee, change);
	}
	if (report->counted || knee_is_late(&knee, report->window))
		return false;
	with_sample = knee;
	knee_add_sample(&with_sample, &report->sample);
	/* The first sample sets the baseline, in cell 0, and is counted by the step after that. */
	if (with_sample.base_ns != knee.base_ns) {
		knee.base_ns = with_sample.base_ns;
		return change_learned(&knee, change);
	}
	return change_measured(&with_sample, true, change);
}

/* gradient2 */

static struct gradient2 gradient2_of(const struct in_flight_params *params,
                                     struct estimate_cell cell)
{
	struct bits from = bits_of(cell);
	struct gradient2 gradient;

	gradient2_begin(&gradient, &params->bounds);
	if (is_unwritten(cell))
		return gradient;
	gradient.limit_parts = read_bits(&from, 32);
	gradient.long_parts = read_bits(&from, 48);
	gradient.count = (uint32_t)read_bits(&from, 4);
	return gradient;
}

static bool step_gradient2(const struct in_flight_params *params, const struct estimate_cell *cells,
                           const struct estimate_report *report, struct estimate_change *change)
{
	struct gradient2 gradient = gradient2_of(params, cells[0]);
	struct bits to = {0};

	gradient2_sample(&gradient, &params->bounds, &report->sample);
	write_bits(&to, gradient.limit_parts, 32);
	write_bits(&to, gradient.long_parts, 48);
	write_bits(&to, gradient.count, 4);
	return change_first_cell(report, cells[0], cell_of(to), change);
}

static uint64_t quota_gradient2(const struct in_flight_params *params,
                                const struct estimate_cell *cells)
{
	struct gradient2 gradient = gradient2_of(params, cells[0]);

	return gradient2_limit(&gradient);
}

/* vegas */

static struct vegas vegas_of(const struct in_flight_params *params, struct estimate_cell cell)
{
	struct bits from = bits_of(cell);
	struct vegas vegas;

	vegas_begin(&vegas, &params->bounds);
	if (is_unwritten(cell))
		return vegas;
	vegas.least_ns = read_bits(&from, 40);
	vegas.limit = (uint32_t)read_bits(&from, 16);
	vegas.count = (uint32_t)read_bits(&from, 24);
	vegas.jitter = (uint16_t)read_bits(&from, 16);
	return vegas;
}

static bool step_vegas(const struct in_flight_params *params, const struct estimate_cell *cells,
                       const struct estimate_report *report, struct estimate_change *change)
{
	struct vegas vegas = vegas_of(params, cells[0]);
	struct bits to = {0};

	vegas_sample(&vegas, &params->bounds, &report->sample);
	write_bits(&to, vegas.least_ns, 40);
	write_bits(&to, vegas.limit, 16);
	write_bits(&to, vegas.count, 24);
	write_bits(&to, vegas.jitter, 16);
	return change_first_cell(report, cells[0], cell_of(to), change);
}

static uint64_t quota_vegas(const struct in_flight_params *params,
                            const struct estimate_cell *cells)
{
	return vegas_of(params, cells[0]).limit;
}

/* aimd */

static struct aimd aimd_of(const struct in_flight_params *params, struct estimate_cell cell)
{
	return (struct aimd){is_unwritten(cell) ? params->bounds.initial : cell.low};
}

static bool step_aimd(const struct in_flight_params *params, const struct estimate_cell *cells,
                      const struct estimate_report *report, struct estimate_change *change)
{
	struct aimd aimd = aimd_of(params, cells[0]);

	aimd_sample(&aimd, &params->bounds, &report->sample);
	return change_first_cell(report, cells[0], (struct estimate_cell){0, aimd.limit}, change);
}

static uint64_t quota_aimd(const struct in_flight_params *params, const struct estimate_cell *cells)
{
	return aimd_of(params, cells[0]).limit;
}

/*
 * bbr: cell 0 has the time of the first denial, each other cell a part of time. A sum that is full
 * counts no more; that would need more requests in flight than are possible.
 */

#define SUM_BITS    44
#define PASSES_BITS 20

/*
 * A cell has the low 32 bits of the part's number: of all such numbers the nearest to now_part is
 * meant.
 */
static struct bbr_part part_of(struct estimate_cell cell, uint64_t now_part)
{
	struct bits from = bits_of(cell);
	struct bbr_part part = {0};

	part.number = now_part +
	              (uint64_t)(int64_t)(int32_t)((uint32_t)read_bits(&from, 32) - (uint32_t)now_part);
	part.sum_ns = read_bits(&from, SUM_BITS);
	part.passes = (uint32_t)read_bits(&from, PASSES_BITS);
	return part;
}

static struct estimate_cell pack_part(const struct bbr_part *part)
{
	struct bits to = {0};

	write_bits(&to, (uint32_t)part->number, 32);
	write_bits(&to, part->sum_ns, SUM_BITS);
	write_bits(&to, part->passes, PASSES_BITS);
	return cell_of(to);
}

/* Adds the sample to the part of now: no other part, and no limit, is needed for that. */
static bool step_bbr(const struct in_flight_params *params, const struct estimate_cell *cells,
                     const struct estimate_report *report, struct estimate_change *change)
{
	uint64_t now_part = report->now_ns / BBR_PART_NS;
	unsigned index = (unsigned)(now_part % BBR_PARTS);
	struct bbr_part part = part_of(cells[1 + index], now_part);
	struct bbr only_now; /* with the part of now only */

	(void)params;
	bbr_begin(&only_now);
	only_now.parts[index] = part;
	bbr_sample(&only_now, &report->sample, report->now_ns);
	part = only_now.parts[index];
	*change = (struct estimate_change){1 + index, pack_part(&part), true, true};
	/* A part whose sums are full counts no more. */
	return !report->counted && part.passes >> PASSES_BITS == 0 && part.sum_ns >> SUM_BITS == 0;
}

static struct bbr bbr_of(const struct estimate_cell *cells, uint32_t cpu, uint64_t now_ns)
{
	struct bbr bbr = {.cpu = cpu, .first_denied_ns = cells[0].high};

	for (unsigned i = 0; i < BBR_PARTS; i++)
		bbr.parts[i] = part_of(cells[1 + i], now_ns / BBR_PART_NS);
	return bbr;
}

/* For bbr, which lowers its limit from the first denial on. Returns whether a change is needed. */
bool estimate_record_denial(const struct in_flight_params *params,
                            const struct estimate_cell *cells, uint32_t cpu, uint64_t now_ns,
                            struct estimate_change *change)
{
	struct bbr bbr;

	if (params->method != WEIR_METHOD_BBR)
		return false;
	bbr = bbr_of(cells, cpu, now_ns);
	bbr_allows(&bbr, &params->bounds, UINT64_MAX, now_ns);
	*change = (struct estimate_change){0, {bbr.first_denied_ns, 0}, true, true};
	return bbr.first_denied_ns != cells[0].high;
}

/* The methods, by enum weir_method */

static const struct estimator {
	uint64_t (*quota)(const struct in_flight_params *params, const struct estimate_cell *cells);
	bool (*step)(const struct in_flight_params *params, const struct estimate_cell *cells,
	             const struct estimate_report *report, struct estimate_change *change);
	unsigned cell_count;
	struct adaptive_bounds bounds;
	bool counts_failures; /* a failed request is a sample, with `dropped`; others ignore it */
} estimators[] = {
    [WEIR_METHOD_KNEE] = {NULL, step_knee, 2, {20, 1, 1000}, false},
    [WEIR_METHOD_GRADIENT2] = {quota_gradient2, step_gradient2, 1, {20, 20, 200}, false},
    [WEIR_METHOD_VEGAS] = {quota_vegas, step_vegas, 1, {20, 1, 1000}, true},
    [WEIR_METHOD_AIMD] = {quota_aimd, step_aimd, 1, {20, 20, 200}, true},
    [WEIR_METHOD_BBR] = {NULL, step_bbr, ESTIMATE_CELLS_MAX, {20, 1, ALGO_PERMITS_MAX}, false},
};

unsigned estimate_cells(enum weir_method method)
{
	return estimators[method].cell_count;
}

struct adaptive_bounds estimate_bounds(enum weir_method method)
{
	return estimators[method].bounds;
}

/* Returns the estimated limit of a method other than knee. */
static uint64_t quota_of(const struct in_flight_params *params, const struct estimate_cell *cells,
                         uint32_t cpu, uint64_t now_ns)
{
	struct bbr bbr;

	if (estimators[params->method].quota)
		return clamp_to_bounds(estimators[params->method].quota(params, cells), params);
	bbr = bbr_of(cells, cpu, now_ns);
	return bbr_quota(&bbr, &params->bounds, now_ns);
}

/* Adds to the limits what only requests with priorities need to know about probes. */
__attribute__((noinline)) static void add_probe_limits(const struct in_flight_params *params,
                                                       struct estimate_cell learned,
                                                       struct headroom_limits *limits)
{
	struct knee knee = learned_of(params, learned);

	limits->quota_without_probe = clamp_to_bounds(knee_ordinary(&knee, &params->bounds), params);
	limits->is_probe_of_all = knee.phase == KNEE_PROBE_ALL || knee_baseline_is_guess(&knee);
	limits->is_probe = knee.phase == KNEE_PROBE || limits->is_probe_of_all;
}

/* Returns the estimated limit, and for requests with priorities what a probe changes in it. */
struct headroom_limits estimate_limits(const struct in_flight_params *params,
                                       const struct estimate_cell *cells, uint32_t cpu,
                                       uint64_t now_ns, bool has_priorities)
{
	struct headroom_limits limits = {0};

	if (params->method != WEIR_METHOD_KNEE) {
		limits.quota = limits.quota_without_probe = quota_of(params, cells, cpu, now_ns);
		return limits;
	}
	limits.quota = clamp_to_bounds(learned_of(params, cells[0]).limit, params);
	if (has_priorities)
		add_probe_limits(params, cells[0], &limits);
	return limits;
}

uint8_t estimate_window(const struct in_flight_params *params, const struct estimate_cell *cells)
{
	return params->method == WEIR_METHOD_KNEE ? learned_of(params, cells[0]).window : 0;
}

/* Makes one change for a report. Returns false if no change is left. */
bool estimate_step(const struct in_flight_params *params, const struct estimate_cell *cells,
                   const struct estimate_report *report, struct estimate_change *change)
{
	struct estimate_report judged = *report;
	bool counts_failures = estimators[params->method].counts_failures;

	if (report->outcome == WEIR_OUTCOME_IGNORED ||
	    (report->outcome == WEIR_OUTCOME_FAILURE && !counts_failures))
		return false;
	judged.sample.dropped = report->outcome != WEIR_OUTCOME_SUCCESS;
	return estimators[params->method].step(params, cells, &judged, change);
}
