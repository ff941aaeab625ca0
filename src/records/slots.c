/* slots.c: acquires, refunds and reads units of limits that count them by the slots of a period. */
#include "records/slots.h"

enum {
	OPEN = SLOTS_OPEN,
	SEALED = SLOTS_SEALED,
	VOID = SLOTS_VOID,
	KINDS = SLOTS_KINDS,
	BARE = SLOTS_BARE,
};

#define FIELD 0xffffu

/* The slots as one step reads them. */
struct slots_view {
	uint64_t start_ns; /* of the header's slot; of now's slot without a header or after a move */
	uint64_t count;    /* units in that slot */
	uint64_t before;   /* units in the record's slots */
	unsigned kind;
	bool later; /* now is in a later slot */
	bool moved; /* `count` is use that a new header takes over */
};

struct cell slots_void(struct cell cell)
{
	cell.high = (cell.high & ~UINT64_C(15)) | VOID;
	return cell;
}

static uint64_t next_slot_start_ns(const struct slots_params *params, uint64_t start_ns)
{
	if (params->whole)
		return start_ns + params->slot_ns;
	return slots_start(params, slots_number(params, start_ns) + 1);
}

/* Whether now is after the slot; one of no whole number of ns may end a nanosecond late. */
static bool slot_is_over(const struct slots_params *params, uint64_t start_ns, uint64_t now_ns)
{
	int64_t age = (int64_t)(now_ns - start_ns), slot_ns = (int64_t)params->slot_ns;

	return age > slot_ns || (age == slot_ns && next_slot_start_ns(params, start_ns) == now_ns);
}

/* Whether a header that is neither reset nor moved stores the sum of the record's slots. */
static bool header_has_before(struct cell header)
{
	return !(cell_generation(header) / KINDS & BARE);
}

/*
 * Makes a header. In the bare form (the word is the count alone) word 0 means no units in an open
 * header, and 2^32 in a sealed or void one, which never has none. An open header that reaches 2^32
 * has no other slot beside it, so it may become void.
 */
static struct cell make_slots_header(const struct record_step *on, uint64_t start_ns, unsigned kind,
                                     uint64_t before, uint64_t count)
{
	unsigned form = on->limit->generation | (count > FIELD ? BARE : 0);
	/* Late swaps may have put more into the record than the limit. */
	uint64_t word = form & BARE ? count : u64_min(before, FIELD) << 16 | count;

	if (count == ALGO_COUNT_MAX && kind == OPEN)
		kind = VOID;
	return cell_make(on->record->tag, start_ns + on->limit->slots.period_ns, (uint32_t)word,
	                 form * KINDS + kind);
}

static unsigned kind_of_header(struct cell header)
{
	unsigned generation = cell_generation(header);

	return generation < SLOTS_RESET ? generation % KINDS : VOID;
}

/* The units of the header's slot; after a move, of all slots; after a reset 0. */
static uint64_t count_of_header(struct cell header)
{
	unsigned generation = cell_generation(header);
	uint32_t word = cell_word(header);

	if (generation >= SLOTS_RESET)
		return generation == RECORD_MOVED ? (uint64_t)word + 1 : 0;
	if (!(generation / KINDS & BARE))
		return word & FIELD;
	return word == 0 && generation % KINDS != OPEN ? ALGO_COUNT_MAX : word;
}

/*
 * The range of `until` of slots before the header's that are not over. Times are in a cell's unit,
 * 1/16 ns, from now on.
 */
struct range {
	uint64_t origin; /* now, with the generation of live cells */
	int64_t over, header;
	uint32_t tag;
};

/* The generation of record cells under a header of this one. They have no form. */
static unsigned generation_of_cells(unsigned generation)
{
	return (generation & ~(unsigned)BARE) * KINDS;
}

static struct range range_of_live_slots(uint64_t period_ns, uint64_t now_ns, struct cell header,
                                        uint32_t tag)
{
	int64_t ahead = (int64_t)((header.high & ~UINT64_C(15)) - (now_ns << 4));
	int64_t over =
	    ahead - (int64_t)(period_ns << 4); /* a clock that lags takes the header's time */

	return (struct range){now_ns << 4 | generation_of_cells(cell_generation(header) / KINDS),
	                      over > 0 ? over : 0, ahead, tag};
}

static inline bool slot_is_in_range(const struct range *range, struct cell cell)
{
	int64_t ahead = (int64_t)(cell.high - range->origin);

	return (ahead & 15) == OPEN && ahead > range->over && ahead < range->header &&
	       cell_tag(cell) == range->tag;
}

static uint64_t sum_of_record(const struct record *record, unsigned width,
                              const struct range *range)
{
	uint64_t use = 0;

	for (unsigned i = 0; i < width; i++) {
		struct cell cell = record_load(record, i);

		use += slot_is_in_range(range, cell) ? (uint64_t)cell_word(cell) + 1 : 0;
	}
	return use;
}

static uint64_t slots_in_use(const struct record_step *on)
{
	struct range range =
	    range_of_live_slots(on->limit->slots.period_ns, on->now_ns, on->header, on->record->tag);
	uint64_t count = count_of_header(on->header);

	if (kind_of_header(on->header) == VOID)
		return count;
	return count + sum_of_record(on->record, on->record->width, &range);
}

/* The sum of the slots before. Reads the record only if the header does not store the sum. */
static uint64_t read_before(const struct record_step *on, const struct slots_view *view)
{
	const struct slots_params *params = &on->limit->slots;
	struct range range;

	if (view->kind == VOID || cell_ahead_ns(on->header, on->now_ns) <= (int64_t)params->slot_ns)
		return 0; /* all slots before are over */
	if (header_has_before(on->header) && !view->later)
		return cell_word(on->header) >> 16;
	range = range_of_live_slots(params->period_ns, on->now_ns, on->header, on->record->tag);
	return sum_of_record(on->record, params->slots, &range);
}

/*
 * Reads the slots for a step. Without a live header they are empty, in the slot of now; after a
 * reset they are empty, in the header's slot if that is later. All use moves into the slot of now
 * if the header has another number of slots, or lies so far ahead that the clock was set back.
 */
static struct slots_view view_of_slots(const struct record_step *on)
{
	const struct slots_params *params = &on->limit->slots;
	unsigned generation = cell_generation(on->header);
	struct slots_view view = {.kind = VOID};
	int64_t start_ahead;

	if (!header_is_live(on->header, on->now_ns)) {
		view.start_ns = slots_start(params, slots_number(params, on->now_ns));
		return view;
	}
	start_ahead = cell_ahead_ns(on->header, on->now_ns) - (int64_t)params->period_ns;
	if (generation == SLOTS_RESET && start_ahead <= (int64_t)ALGO_SKEW_NS) {
		start_ahead = start_ahead > 0 ? start_ahead : 0;
		view.start_ns =
		    slots_start(params, slots_number(params, on->now_ns + (uint64_t)start_ahead));
		return view;
	}
	if ((generation / KINDS | BARE) != (on->limit->generation | BARE) ||
	    start_ahead > (int64_t)ALGO_SKEW_NS) {
		view.start_ns = slots_start(params, slots_number(params, on->now_ns));
		view.count = u64_min(slots_in_use(on), params->count);
		view.moved = true;
		return view;
	}
	view.start_ns = on->now_ns + (uint64_t)start_ahead;
	view.later = slot_is_over(params, view.start_ns, on->now_ns);
	view.count = count_of_header(on->header);
	view.kind = kind_of_header(on->header);
	view.before = read_before(on, &view);
	return view;
}

/* Weighted slots: the units of the slot of now, and of the one before it. */
struct windows {
	uint64_t start_ns, before, count;
};

static struct windows windows_of(const struct slots_params *params, const struct slots_view *view,
                                 uint64_t now_ns)
{
	uint64_t next_ns = view->start_ns + params->slot_ns;

	if ((int64_t)(now_ns - next_ns) >= 0)
		return (struct windows){next_ns, view->count, 0};
	return (struct windows){view->start_ns, view->before, view->count};
}

/* The units in use; of weighted slots rounded up. */
static uint64_t slot_units_in_use(const struct slots_params *params, const struct slots_view *view,
                                  uint64_t now_ns)
{
	struct windows w;

	if (!params->weighted)
		return view->before + view->count;
	w = windows_of(params, view, now_ns);
	return w.count +
	       slots_fading(w.before, params->slot_ns - sat_sub(now_ns, w.start_ns), params->slot_ns);
}

/* When `before`, which fades to 0 within a slot, is down to `room`. */
static uint64_t ns_until_faded(const struct slots_params *params, uint64_t before, uint64_t room)
{
	if (before <= room)
		return 0;
	return (uint64_t)(((u128)(before - room) * params->slot_ns + before - 1) / before);
}

/*
 * In this slot if its own count leaves capacity; otherwise in the next, in which that count fades.
 */
static uint64_t ns_until_capacity_weighted(const struct slots_params *params,
                                           const struct slots_view *view, uint64_t now_ns,
                                           uint64_t cost)
{
	struct windows w = windows_of(params, view, now_ns);
	uint64_t room = params->count - cost;

	if (w.count <= room)
		return w.start_ns + ns_until_faded(params, w.before, room - w.count) - now_ns;
	return w.start_ns + params->slot_ns + ns_until_faded(params, w.count, room) - now_ns;
}

static struct cell header_with_kind(struct cell header, unsigned from, unsigned to)
{
	return (struct cell){header.low, header.high - from + to};
}

static void want_slots_header(struct record_change *change, struct cell header, bool last)
{
	change->want = RECORD_WANT_HEADER;
	change->header = header;
	change->last = last;
}

/*
 * Wants the next change of a sealed header: its copy in the record, then a header of the next slot
 * with `count` units.
 */
static void want_next_slot(const struct record_step *on, uint64_t count, struct slots_view *view,
                           struct record_change *change)
{
	const struct slots_params *params = &on->limit->slots;
	uint64_t slot = slots_number(params, view->start_ns);
	struct range range;
	struct cell next;

	change->index = (unsigned)(slot % params->slots);
	change->before = record_load(on->record, change->index);
	change->after =
	    cell_make(on->record->tag, view->start_ns + params->period_ns, (uint32_t)(view->count - 1),
	              generation_of_cells(on->limit->generation));
	if (cell_bits(change->before) != cell_bits(change->after)) {
		change->want = RECORD_WANT_CELL;
		return;
	}
	slot =
	    u64_max(slot + 1, slots_number(params, on->now_ns)); /* if the clock lags, the next slot */
	view->start_ns = slots_start(params, slot);
	next = make_slots_header(on, view->start_ns, OPEN, 0, count);
	range = range_of_live_slots(params->period_ns, on->now_ns, next, on->record->tag);
	view->before = sum_of_record(on->record, params->slots, &range);
	view->count = count;
	want_slots_header(change, make_slots_header(on, view->start_ns, OPEN, view->before, count),
	                  count > 0);
}

static void acquire_in_slot(const struct record_step *on, uint64_t cost, struct slots_view *view,
                            struct record_change *change)
{
	if (view->kind == SEALED) {
		want_next_slot(on, cost, view, change);
		return;
	}
	if (view->later &&
	    view->count > 0) { /* the word stays, so clocks that lag still read it rightly */
		want_slots_header(change, header_with_kind(on->header, view->kind, SEALED), false);
		change->clean = view->kind == VOID;
		return;
	}
	if (view->later)
		view->start_ns =
		    slots_start(&on->limit->slots, slots_number(&on->limit->slots, on->now_ns));
	view->count += cost;
	want_slots_header(
	    change, make_slots_header(on, view->start_ns, view->kind, view->before, view->count), true);
}

/* Wants a header without use. A slot whose count was final is not opened again. */
static void reset_slots(const struct record_step *on, const struct slots_view *view, bool last,
                        struct record_change *change)
{
	uint64_t start_ns = view->kind == SEALED ? next_slot_start_ns(&on->limit->slots, view->start_ns)
	                                         : view->start_ns;

	want_slots_header(
	    change, cell_make(on->record->tag, start_ns + on->limit->slots.period_ns, 0, SLOTS_RESET),
	    last);
}

static uint64_t ns_until_capacity(const struct record_step *on, const struct slots_view *view,
                                  uint64_t need)
{
	const struct slots_params *params = &on->limit->slots;
	struct range range =
	    range_of_live_slots(params->period_ns, on->now_ns, on->header, on->record->tag);
	unsigned index;

	if (view->kind != VOID) {
		index = (unsigned)(slots_number(params, view->start_ns) % params->slots);
		for (unsigned i = 1; i < params->slots;
		     i++) { /* the oldest slot is at the index after the header's */
			struct cell cell;

			index = index + 1 == params->slots ? 0 : index + 1;
			cell = record_load(on->record, index);
			if (!slot_is_in_range(&range, cell))
				continue;
			if (cell_word(cell) >= need - 1)
				return (uint64_t)cell_ahead_ns(cell, on->now_ns);
			need -= (uint64_t)cell_word(cell) + 1;
		}
	}
	return view->start_ns + params->period_ns - on->now_ns;
}

/* Finds the slot that ends at `until_ns`, or for 0 the newest one. Returns its index, or -1. */
static int find_slot(const struct record_step *on, uint64_t until_ns, struct cell *found)
{
	struct range range =
	    range_of_live_slots(on->limit->slots.period_ns, on->now_ns, on->header, on->record->tag);
	int index = -1;

	for (unsigned i = 0; i < on->limit->slots.slots; i++) {
		struct cell cell = record_load(on->record, i);

		if (!slot_is_in_range(&range, cell))
			continue;
		if (until_ns != 0 ? on->now_ns + (uint64_t)cell_ahead_ns(cell, on->now_ns) == until_ns
		                  : index < 0 || cell_ahead_ns(cell, on->now_ns) >
		                                     cell_ahead_ns(*found, on->now_ns)) {
			*found = cell;
			index = (int)i;
		}
	}
	return index;
}

/* The sum of the record's slots, for a header that is not void. */
static uint64_t before_of_header(const struct record_step *on, const struct slots_view *view)
{
	const struct slots_params *params = &on->limit->slots;
	struct range range =
	    range_of_live_slots(params->period_ns, view->start_ns, on->header, on->record->tag);

	return header_has_before(on->header) ? cell_word(on->header) >> 16
	                                     : sum_of_record(on->record, params->slots, &range);
}

/* Refunds units of the header's own slot. */
static void refund_header(const struct record_step *on, uint64_t cost, struct slots_view *view,
                          struct record_change *change)
{
	uint64_t before = view->kind == VOID ? 0 : before_of_header(on, view);

	change->refunded = u64_min(cost, view->count);
	if (change->refunded == 0)
		return;
	view->count -= change->refunded;
	if (view->kind == VOID && view->count == 0)
		reset_slots(on, view, false, change);
	else
		want_slots_header(
		    change, make_slots_header(on, view->start_ns, view->kind, before, view->count), false);
	change->last = change->refunded == cost;
}

/* Lowers `before` in the header by the units that were refunded in the record. */
static void want_lower_before(const struct record_step *on, const struct slots_view *view,
                              struct record_change *change)
{
	const struct slots_params *params = &on->limit->slots;
	struct range range =
	    range_of_live_slots(params->period_ns, view->start_ns, on->header, on->record->tag);
	uint64_t before = sum_of_record(on->record, params->slots, &range);
	struct cell header = on->header;

	if (!header_has_before(header) || cell_word(header) >> 16 <= before)
		return;
	header.low -= ((cell_word(header) >> 16) - before) << 16;
	want_slots_header(change, header, false);
}

/* Refunds units of the slot at `index`, whose cell is change->before. */
static void refund_record_cell(const struct record_step *on, unsigned index,
                               struct record_change *change)
{
	change->refunded = u64_min(on->call->cost, (uint64_t)cell_word(change->before) + 1);
	change->want = RECORD_WANT_CELL;
	change->index = index;
	change->after = change->before;
	if (change->refunded > cell_word(change->before))
		change->after = slots_void(change->before);
	else
		change->after.low -= change->refunded;
}

/*
 * Refunds units of the slot that ends at `until_ns`, or for 0 of the newest slot with a count.
 * First completes a sealed header. If no units are left to refund, lowers `before`.
 */
static void refund_slots(const struct record_step *on, struct slots_view *view,
                         struct record_change *change)
{
	uint64_t name_ns = on->call->until_ns;
	bool of_header =
	    name_ns == 0 ? view->count > 0 : name_ns == view->start_ns + on->limit->slots.period_ns;
	int index = -1;

	if (view->before + view->count == 0) {
		if (view->kind == OPEN)
			want_lower_before(on, view, change);
		return;
	}
	if (view->kind == SEALED) {
		want_next_slot(on, 0, view, change);
		return;
	}
	if (of_header && on->call->cost > 0) {
		refund_header(on, on->call->cost, view, change);
		return;
	}
	if (view->kind == VOID)
		return;
	if (on->call->cost > 0)
		index = find_slot(on, name_ns, &change->before);
	if (index < 0) {
		want_lower_before(on, view, change);
		return;
	}
	refund_record_cell(on, (unsigned)index, change);
	change->older = name_ns == 0 ? on->limit->slots.slots - 1 : 0;
}

bool slots_refund_older(const struct record_step *on, struct record_change *change)
{
	const struct slots_params *params = &on->limit->slots;
	struct range range =
	    range_of_live_slots(params->period_ns, on->now_ns, on->header, on->record->tag);

	for (; on->call->cost > 0 && change->older > 0; change->older--) {
		unsigned index = change->index > 0 ? change->index - 1 : params->slots - 1;

		change->index = index;
		change->before = record_load(on->record, index);
		if (slot_is_in_range(&range, change->before)) {
			refund_record_cell(on, index, change);
			change->older--;
			return true;
		}
	}
	return false;
}

/* How long until nothing is in use. */
static uint64_t ns_until_idle(const struct record_step *on, const struct slots_view *view)
{
	struct cell newest;

	if (view->count > 0)
		return view->start_ns + on->limit->slots.period_ns - on->now_ns;
	if (view->before == 0)
		return 0;
	if (find_slot(on, 0, &newest) < 0) /* refunded, but `before` is not lowered yet */
		return next_slot_start_ns(&on->limit->slots, view->start_ns) - on->now_ns;
	return (uint64_t)cell_ahead_ns(newest, on->now_ns);
}

static void decide_slots(const struct record_step *on, struct algo_decision *out,
                         struct record_change *change)
{
	const struct slots_params *params = &on->limit->slots;
	uint64_t now_ns = on->now_ns, cost = u64_max(on->call->cost, 1);
	struct slots_view view = view_of_slots(on);
	uint64_t use = slot_units_in_use(params, &view, now_ns);

	switch (on->call->op) {
	case ALGO_ACQUIRE:
	case ALGO_PEEK:
		if (use + cost > params->count) {
			algo_decision_deny(out, WEIR_REASON_OVER_LIMIT,
			                   params->weighted
			                       ? ns_until_capacity_weighted(params, &view, now_ns, cost)
			                       : ns_until_capacity(on, &view, use + cost - params->count));
			if (view.moved && on->call->op == ALGO_ACQUIRE)
				want_slots_header(change, make_slots_header(on, view.start_ns, VOID, 0, view.count),
				                  true);
		} else if (algo_consumes(on->call)) {
			acquire_in_slot(on, cost, &view, change);
		}
		break;
	case ALGO_REFUND:
		refund_slots(on, &view, change);
		break;
	default:
		if (view.before + view.count > 0 && on->call->op == ALGO_RESET) {
			reset_slots(on, &view, true, change);
			view.before = view.count = 0;
		}
		break;
	}
	out->remaining = sat_sub(params->count, slot_units_in_use(params, &view, now_ns));
	out->reset_after_ns = ns_until_idle(on, &view);
}

bool slots_seal(const struct record_step *on, struct record_change *change)
{
	const struct slots_params *params = &on->limit->slots;
	struct slots_view view = {.start_ns = on->now_ns +
	                                      (uint64_t)cell_ahead_ns(on->header, on->now_ns) -
	                                      params->period_ns,
	                          .count = count_of_header(on->header),
	                          .later = true};

	if (cell_generation(on->header) != on->limit->generation * KINDS + OPEN || params->weighted ||
	    view.count == 0 || cell_ahead_ns(on->header, on->now_ns) <= 0 ||
	    !slot_is_over(params, view.start_ns, on->now_ns) ||
	    read_before(on, &view) + view.count + on->call->cost > params->count)
		return false;
	change->header = header_with_kind(on->header, OPEN, SEALED);
	return true;
}

void slots_open(const struct record_step *on, struct algo_decision *out,
                struct record_change *change)
{
	struct slots_view view = {.start_ns = on->now_ns +
	                                      (uint64_t)cell_ahead_ns(on->header, on->now_ns) -
	                                      on->limit->slots.period_ns,
	                          .count = count_of_header(on->header)};

	want_next_slot(on, on->call->cost, &view, change);
	algo_decision_allow(out);
	out->remaining = sat_sub(on->limit->slots.count, view.before + view.count);
	out->reset_after_ns = view.start_ns + on->limit->slots.period_ns - on->now_ns;
}

static void add_slot_uses(struct uses *uses, uint64_t units, uint64_t until_ns)
{
	if (units > 0)
		uses_add(uses, (struct uses_entry){units, until_ns, until_ns});
}

static void read_slots(const struct record_step *on, struct uses *uses)
{
	struct slots_view view = view_of_slots(on);
	struct range range =
	    range_of_live_slots(on->limit->slots.period_ns, on->now_ns, on->header, on->record->tag);

	uses->until_ns = view.start_ns + on->limit->slots.period_ns;
	for (unsigned i = 0; view.kind != VOID && i < on->limit->slots.slots; i++) {
		struct cell cell = record_load(on->record, i);

		if (slot_is_in_range(&range, cell))
			add_slot_uses(uses, (uint64_t)cell_word(cell) + 1,
			              on->now_ns + (uint64_t)cell_ahead_ns(cell, on->now_ns));
	}
	add_slot_uses(uses, view.count, uses->until_ns);
}

const struct record_ops record_slots = {decide_slots, slots_in_use, read_slots};
