/*
 * slots.c: decides calls on a sliding window or a sliding counter, which count units in slots:
 * equal parts of the limit's period.
 *
 * The newest slot with units is in the key's *header*, a cell in a table; the earlier ones are in
 * its *record*, an array of cells with one slot each. When now has reached a later slot, the header
 * is SEALED (its count is final), copied to its cell in the record, and swapped for the new slot. A
 * VOID header says that the record is of an earlier life of the key and does not count. A BARE one
 * stores no sum of the earlier slots, because its own count needs the space (slots.h).
 *
 * A function `want_…` changes no cell: it describes the next swap in `*change`. The caller carries
 * it out and decides anew, until a change is RECORD_FINAL.
 */
#include "records/slots.h"

enum {
	OPEN = SLOTS_OPEN,
	SEALED = SLOTS_SEALED,
	VOID = SLOTS_VOID,
	KINDS = SLOTS_KINDS,
	BARE = SLOTS_BARE,
};

struct cell slots_void(struct cell cell)
{
	cell.high = (cell.high & ~UINT64_C(15)) | VOID;
	return cell;
}

/* The slots as one step reads them. */
struct slots_view {
	uint64_t start_ns;      /* of the header's slot; of now's slot without a header or if merged */
	uint64_t slot_units;    /* units in that slot */
	uint64_t earlier_units; /* units in the record's slots */
	unsigned kind;
	bool is_over;   /* now is in a later slot */
	bool is_merged; /* all units in use are in `slot_units`, for a new header */
};

static uint64_t next_slot_start_ns(const struct slots_params *params, uint64_t start_ns)
{
	if (params->whole) /* a slot is a whole number of nanoseconds */
		return start_ns + params->slot_ns;
	return slots_start(params, slots_number(params, start_ns) + 1);
}

/* Slots of a fraction of a nanosecond differ by one: if the age may be that of either, computes. */
static bool slot_is_over(const struct slots_params *params, uint64_t start_ns, uint64_t now_ns)
{
	int64_t age_ns = (int64_t)(now_ns - start_ns), slot_ns = (int64_t)params->slot_ns;

	return age_ns > slot_ns ||
	       (age_ns == slot_ns && next_slot_start_ns(params, start_ns) == now_ns);
}

static struct live_slots live_slots_now(const struct record_step *step)
{
	return slots_live_at(step->limit->slots.period_ns, step->now_ns, step->header,
	                     step->record->tag);
}

static uint64_t sum_of_slots(const struct record *record, unsigned width,
                             const struct live_slots *live)
{
	uint64_t units = 0;

	for (unsigned i = 0; i < width; i++) {
		struct cell cell = record_load(record, i);

		units += slots_is_live(live, cell) ? (uint64_t)cell_word(cell) + 1 : 0;
	}
	return units;
}

static uint64_t all_units_in_use(const struct record_step *step)
{
	struct live_slots live = live_slots_now(step);
	uint64_t header_units = slots_header_units(step->header);

	if (slots_header_kind(step->header) == VOID)
		return header_units;
	return header_units + sum_of_slots(step->record, step->record->width, &live);
}

/* The units of the slots before the header's. Reads the record only if the header has no sum. */
static uint64_t read_earlier_units(const struct record_step *step, const struct slots_view *view)
{
	const struct slots_params *params = &step->limit->slots;
	struct live_slots live;

	if (view->kind == VOID || cell_ahead_ns(step->header, step->now_ns) <= (int64_t)params->slot_ns)
		return 0; /* all slots before are over */
	if (slots_header_has_sum(step->header) && !view->is_over)
		return cell_word(step->header) >> 16;
	live = live_slots_now(step);
	return sum_of_slots(step->record, params->slots, &live);
}

/*
 * Reads the slots for a step. Without a live header they are empty, in the slot of now; after a
 * reset they are empty, in the header's slot if that is later. All units in use are merged into the
 * slot of now if the header has another number of slots, or lies so far ahead that the clock was
 * set back.
 */
static struct slots_view read_slots(const struct record_step *step)
{
	const struct slots_params *params = &step->limit->slots;
	unsigned generation = cell_generation(step->header);
	struct slots_view view = {.kind = VOID};
	int64_t start_ahead_ns; /* of the header's slot */
	bool has_same_slots;

	if (!header_is_live(step->header, step->now_ns)) {
		view.start_ns = slots_start(params, slots_number(params, step->now_ns));
		return view;
	}
	start_ahead_ns = cell_ahead_ns(step->header, step->now_ns) - (int64_t)params->period_ns;
	if (generation == SLOTS_RESET && start_ahead_ns <= (int64_t)ALGO_SKEW_NS) {
		start_ahead_ns = start_ahead_ns > 0 ? start_ahead_ns : 0;
		view.start_ns =
		    slots_start(params, slots_number(params, step->now_ns + (uint64_t)start_ahead_ns));
		return view;
	}
	has_same_slots = (generation / KINDS | BARE) == (step->limit->generation | BARE);
	if (!has_same_slots || start_ahead_ns > (int64_t)ALGO_SKEW_NS) {
		view.start_ns = slots_start(params, slots_number(params, step->now_ns));
		view.slot_units = u64_min(all_units_in_use(step), params->count);
		view.is_merged = true;
		return view;
	}
	view.start_ns = step->now_ns + (uint64_t)start_ahead_ns;
	view.is_over = slot_is_over(params, view.start_ns, step->now_ns);
	view.slot_units = slots_header_units(step->header);
	view.kind = slots_header_kind(step->header);
	view.earlier_units = read_earlier_units(step, &view);
	return view;
}

/* The units of the earlier slots that counted when the header's slot began. */
static uint64_t sum_at_slot_start(const struct record_step *step, const struct slots_view *view)
{
	const struct slots_params *params = &step->limit->slots;
	struct live_slots live =
	    slots_live_at(params->period_ns, view->start_ns, step->header, step->record->tag);

	return sum_of_slots(step->record, params->slots, &live);
}

/*
 * Finds the live slot whose units end at `until_ns`, or for 0 the newest one. Returns its index in
 * the record, or -1.
 */
static int find_slot(const struct record_step *step, uint64_t until_ns, struct cell *found)
{
	struct live_slots live = live_slots_now(step);
	int64_t wanted_ns = until_ns ? (int64_t)(until_ns - step->now_ns) : 0, newest_ns = 0;
	int index = -1;

	for (unsigned i = 0; i < step->limit->slots.slots; i++) {
		struct cell cell = record_load(step->record, i);
		int64_t ahead_ns = cell_ahead_ns(cell, step->now_ns);

		if (slots_is_live(&live, cell) &&
		    (until_ns != 0 ? ahead_ns == wanted_ns : ahead_ns > newest_ns)) {
			*found = cell;
			newest_ns = ahead_ns;
			index = (int)i;
		}
	}
	return index;
}

/*
 * Makes the header of the slot from `start_ns`. In the bare form (the word is the slot's units
 * alone) word 0 means no units in an open header, and 2^32 in a sealed or void one, which never has
 * none. An open header that reaches 2^32 has no other slot beside it, so it may become void.
 */
static struct cell make_header(const struct record_step *step, uint64_t start_ns, unsigned kind,
                               uint64_t earlier_units, uint64_t slot_units)
{
	unsigned form = step->limit->generation | (slot_units > SLOTS_FIELD_MAX ? BARE : 0);
	/* Late swaps may have put more into the record than the limit. */
	uint64_t word =
	    form & BARE ? slot_units : u64_min(earlier_units, SLOTS_FIELD_MAX) << 16 | slot_units;

	if (slot_units == ALGO_COUNT_MAX && kind == OPEN)
		kind = VOID;
	return cell_make(step->record->tag, start_ns + step->limit->slots.period_ns, (uint32_t)word,
	                 form * KINDS + kind);
}

/*
 * A sliding counter has two *weighted* slots: the units of the slot of now, and those of the slot
 * before, which fade to 0 while the slot of now goes by.
 */
struct weighted_slots {
	uint64_t start_ns; /* of the slot of now */
	uint64_t slot_units, fading_units;
};

static struct weighted_slots weighted_slots_at(const struct slots_params *params,
                                               const struct slots_view *view, uint64_t now_ns)
{
	uint64_t next_start_ns = view->start_ns + params->slot_ns;

	if ((int64_t)(now_ns - next_start_ns) >= 0)
		return (struct weighted_slots){next_start_ns, 0, view->slot_units};
	return (struct weighted_slots){view->start_ns, view->slot_units, view->earlier_units};
}

/* The units in use; of weighted slots rounded up. */
static uint64_t units_in_use(const struct slots_params *params, const struct slots_view *view,
                             uint64_t now_ns)
{
	struct weighted_slots slots;

	if (!params->weighted)
		return view->earlier_units + view->slot_units;
	slots = weighted_slots_at(params, view, now_ns);
	return slots.slot_units + slots_fading(slots.fading_units,
	                                       params->slot_ns - sat_sub(now_ns, slots.start_ns),
	                                       params->slot_ns);
}

/* When `units`, which fade to 0 within a slot, are down to `rest`: (1 - rest / units) of a slot. */
static uint64_t ns_until_faded(const struct slots_params *params, uint64_t units, uint64_t rest)
{
	if (units <= rest)
		return 0;
	return (uint64_t)(((u128)(units - rest) * params->slot_ns + units - 1) / units);
}

/*
 * How long until `cost` units are free: in this slot if its own units leave that many, otherwise in
 * the next, in which those units fade.
 */
static uint64_t ns_until_capacity_weighted(const struct slots_params *params,
                                           const struct slots_view *view, uint64_t now_ns,
                                           uint64_t cost)
{
	struct weighted_slots slots = weighted_slots_at(params, view, now_ns);
	uint64_t units_max = params->count - cost;

	if (slots.slot_units <= units_max)
		return slots.start_ns +
		       ns_until_faded(params, slots.fading_units, units_max - slots.slot_units) - now_ns;
	return slots.start_ns + params->slot_ns + ns_until_faded(params, slots.slot_units, units_max) -
	       now_ns;
}

static struct cell header_with_kind(struct cell header, unsigned from, unsigned to)
{
	return (struct cell){header.low, header.high - from + to};
}

static void want_header(struct record_change *change, struct cell header, bool is_final)
{
	change->want = RECORD_WANT_HEADER;
	change->header = header;
	change->is_final = is_final;
}

/*
 * Wants the next change of a sealed header: its copy in the record, then a header of the next slot
 * with `count` units, for which `*view` is updated. Without units (a refund needs this) it is not
 * final.
 */
static void want_next_slot(const struct record_step *step, uint64_t count, struct slots_view *view,
                           struct record_change *change)
{
	const struct slots_params *params = &step->limit->slots;
	uint64_t slot = slots_number(params, view->start_ns);
	struct live_slots live;
	struct cell next;

	change->index = (unsigned)(slot % params->slots);
	change->before = record_load(step->record, change->index);
	change->after =
	    cell_make(step->record->tag, view->start_ns + params->period_ns,
	              (uint32_t)(view->slot_units - 1), slots_cell_generation(step->limit->generation));
	if (cell_bits(change->before) != cell_bits(change->after)) {
		change->want = RECORD_WANT_CELL;
		return;
	}
	/* The slot of now, or if this thread's clock lags, the one after the sealed slot. */
	slot = u64_max(slot + 1, slots_number(params, step->now_ns));
	view->start_ns = slots_start(params, slot);
	next = make_header(step, view->start_ns, OPEN, 0, count);
	live = slots_live_at(params->period_ns, step->now_ns, next, step->record->tag);
	view->earlier_units = sum_of_slots(step->record, params->slots, &live);
	view->slot_units = count;
	want_header(change, make_header(step, view->start_ns, OPEN, view->earlier_units, count),
	            count > 0);
}

/* Wants the next change of an acquire: a unit in the header's slot, or the end of that slot. */
static void want_acquire(const struct record_step *step, uint64_t cost, struct slots_view *view,
                         struct record_change *change)
{
	if (view->kind == SEALED) {
		want_next_slot(step, cost, view, change);
		return;
	}
	if (view->is_over && view->slot_units > 0) {
		/* The word stays, so threads whose clocks lag still read it rightly. */
		want_header(change, header_with_kind(step->header, view->kind, SEALED), RECORD_INTERIM);
		change->voids_record_first = view->kind == VOID;
		return;
	}
	if (view->is_over)
		view->start_ns =
		    slots_start(&step->limit->slots, slots_number(&step->limit->slots, step->now_ns));
	view->slot_units += cost;
	want_header(
	    change,
	    make_header(step, view->start_ns, view->kind, view->earlier_units, view->slot_units),
	    RECORD_FINAL);
}

/* Wants a header without units. A slot whose count was final (SEALED) is not opened again. */
static void want_reset(const struct record_step *step, const struct slots_view *view, bool is_final,
                       struct record_change *change)
{
	uint64_t start_ns = view->kind == SEALED
	                        ? next_slot_start_ns(&step->limit->slots, view->start_ns)
	                        : view->start_ns;

	want_header(
	    change,
	    cell_make(step->record->tag, start_ns + step->limit->slots.period_ns, 0, SLOTS_RESET),
	    is_final);
}

/* How long until so many of the oldest slots have ended that `need` units are free. */
static uint64_t ns_until_capacity(const struct record_step *step, const struct slots_view *view,
                                  uint64_t need)
{
	const struct slots_params *params = &step->limit->slots;
	struct live_slots live = live_slots_now(step);
	unsigned index;

	if (view->kind != VOID) {
		index = (unsigned)(slots_number(params, view->start_ns) % params->slots);
		/* The oldest slot is at the index after the header's. */
		for (unsigned i = 1; i < params->slots; i++) {
			struct cell cell;

			index = index + 1 == params->slots ? 0 : index + 1;
			cell = record_load(step->record, index);
			if (!slots_is_live(&live, cell))
				continue;
			if (cell_word(cell) >= need - 1)
				return (uint64_t)cell_ahead_ns(cell, step->now_ns);
			need -= (uint64_t)cell_word(cell) + 1;
		}
	}
	return view->start_ns + params->period_ns - step->now_ns;
}

/* Wants up to `cost` units of the header's own slot refunded. */
static void want_refund_header(const struct record_step *step, uint64_t cost,
                               struct slots_view *view, struct record_change *change)
{
	uint64_t earlier_units = 0;

	if (view->kind != VOID)
		earlier_units = slots_header_has_sum(step->header) ? cell_word(step->header) >> 16
		                                                   : sum_at_slot_start(step, view);
	change->refunded = u64_min(cost, view->slot_units);
	if (change->refunded == 0)
		return;
	view->slot_units -= change->refunded;
	if (view->kind == VOID && view->slot_units == 0)
		want_reset(step, view, RECORD_INTERIM, change);
	else
		want_header(change,
		            make_header(step, view->start_ns, view->kind, earlier_units, view->slot_units),
		            RECORD_INTERIM);
	change->is_final = change->refunded == cost;
}

/*
 * Wants the header's sum of the earlier slots lowered by the units that were refunded in the
 * record, or nothing if it stores no sum or is right already.
 */
static void want_lower_earlier_units(const struct record_step *step, const struct slots_view *view,
                                     struct record_change *change)
{
	uint64_t earlier_units = sum_at_slot_start(step, view);
	struct cell header = step->header;

	if (!slots_header_has_sum(header) || cell_word(header) >> 16 <= earlier_units)
		return;
	header.low -= ((cell_word(header) >> 16) - earlier_units) << 16;
	want_header(change, header, RECORD_INTERIM);
}

/* Wants units of the slot at `index` refunded, whose cell is change->before (its word: units - 1).
 */
static void want_refund_slot(const struct record_step *step, unsigned index,
                             struct record_change *change)
{
	change->refunded = u64_min(step->call->cost, (uint64_t)cell_word(change->before) + 1);
	change->want = RECORD_WANT_CELL;
	change->index = index;
	change->after = change->before;
	if (change->refunded > cell_word(change->before))
		change->after = slots_void(change->before);
	else
		change->after.low -= change->refunded;
}

/*
 * Wants the next change of a refund: of the slot whose units end at the call's `until_ns`, or for 0
 * of the newest slot that has units. First completes a sealed header. If no units are left to
 * refund, lowers the header's sum of the earlier slots.
 */
static void want_refund(const struct record_step *step, struct slots_view *view,
                        struct record_change *change)
{
	uint64_t end_ns = step->call->until_ns;
	bool is_in_header = end_ns == 0 ? view->slot_units > 0
	                                : end_ns == view->start_ns + step->limit->slots.period_ns;
	int index = -1;

	if (view->earlier_units + view->slot_units == 0) {
		if (view->kind == OPEN)
			want_lower_earlier_units(step, view, change);
		return;
	}
	if (view->kind == SEALED) {
		want_next_slot(step, 0, view, change);
		return;
	}
	if (is_in_header && step->call->cost > 0) {
		want_refund_header(step, step->call->cost, view, change);
		return;
	}
	if (view->kind == VOID)
		return;
	if (step->call->cost > 0)
		index = find_slot(step, end_ns, &change->before);
	if (index < 0) {
		want_lower_earlier_units(step, view, change);
		return;
	}
	want_refund_slot(step, (unsigned)index, change);
	change->older_slots = end_ns == 0 ? step->limit->slots.slots - 1 : 0;
}

/*
 * After a refund has emptied a slot of the record and has units left: wants the next older live
 * slot refunded. Returns false if there is none.
 */
bool slots_refund_older(const struct record_step *step, struct record_change *change)
{
	const struct slots_params *params = &step->limit->slots;
	struct live_slots live = live_slots_now(step);

	for (; step->call->cost > 0 && change->older_slots > 0; change->older_slots--) {
		unsigned index = change->index > 0 ? change->index - 1 : params->slots - 1;

		change->index = index;
		change->before = record_load(step->record, index);
		if (slots_is_live(&live, change->before)) {
			want_refund_slot(step, index, change);
			change->older_slots--;
			return true;
		}
	}
	return false;
}

/* How long until no units are in use. */
static uint64_t ns_until_idle(const struct record_step *step, const struct slots_view *view)
{
	struct cell newest;

	if (view->slot_units > 0)
		return view->start_ns + step->limit->slots.period_ns - step->now_ns;
	if (view->earlier_units == 0)
		return 0;
	if (find_slot(step, 0, &newest) < 0) /* refunded, but the header's sum is not lowered yet */
		return next_slot_start_ns(&step->limit->slots, view->start_ns) - step->now_ns;
	return (uint64_t)cell_ahead_ns(newest, step->now_ns);
}

/* Sets `out` to the decision on a call, and `change` to the next change that it takes. */
static void decide_slots(const struct record_step *step, struct algo_decision *out,
                         struct record_change *change)
{
	const struct slots_params *params = &step->limit->slots;
	uint64_t now_ns = step->now_ns, cost = u64_max(step->call->cost, 1);
	struct slots_view view = read_slots(step);
	uint64_t used = units_in_use(params, &view, now_ns);

	switch (step->call->op) {
	case ALGO_ACQUIRE:
	case ALGO_PEEK:
		if (used + cost > params->count) {
			algo_decision_deny(out, WEIR_REASON_OVER_LIMIT,
			                   params->weighted
			                       ? ns_until_capacity_weighted(params, &view, now_ns, cost)
			                       : ns_until_capacity(step, &view, used + cost - params->count));
			if (view.is_merged && step->call->op == ALGO_ACQUIRE)
				want_header(change, make_header(step, view.start_ns, VOID, 0, view.slot_units),
				            RECORD_FINAL);
		} else if (algo_consumes(step->call)) {
			want_acquire(step, cost, &view, change);
		}
		break;
	case ALGO_REFUND:
		want_refund(step, &view, change);
		break;
	default:
		if (view.earlier_units + view.slot_units > 0 && step->call->op == ALGO_RESET) {
			want_reset(step, &view, RECORD_FINAL, change);
			view.earlier_units = view.slot_units = 0;
		}
		break;
	}
	out->remaining = sat_sub(params->count, units_in_use(params, &view, now_ns));
	out->reset_after_ns = ns_until_idle(step, &view);
}

/*
 * The fast path of an acquire in a later slot than the header's, with slots_open(): wants the
 * header sealed. Returns false if the general step has to decide: the header is not open and of
 * this limit, its slot is not over, or the acquire may not pass.
 */
bool slots_seal(const struct record_step *step, struct record_change *change)
{
	const struct slots_params *params = &step->limit->slots;
	int64_t ahead_ns = cell_ahead_ns(step->header, step->now_ns);
	struct slots_view view = {.start_ns = step->now_ns + (uint64_t)ahead_ns - params->period_ns,
	                          .slot_units = slots_header_units(step->header),
	                          .is_over = true};

	if (cell_generation(step->header) != step->limit->generation * KINDS + OPEN ||
	    params->weighted || view.slot_units == 0 || ahead_ns <= 0 ||
	    !slot_is_over(params, view.start_ns, step->now_ns) ||
	    read_earlier_units(step, &view) + view.slot_units + step->call->cost > params->count)
		return false;
	change->header = header_with_kind(step->header, OPEN, SEALED);
	return true;
}

/* After slots_seal() and its swap: wants the next change that opens the slot of now, and decides.
 */
void slots_open(const struct record_step *step, struct algo_decision *out,
                struct record_change *change)
{
	struct slots_view view = {.start_ns = step->now_ns +
	                                      (uint64_t)cell_ahead_ns(step->header, step->now_ns) -
	                                      step->limit->slots.period_ns,
	                          .slot_units = slots_header_units(step->header)};

	want_next_slot(step, step->call->cost, &view, change);
	algo_decision_allow(out);
	out->remaining = sat_sub(step->limit->slots.count, view.earlier_units + view.slot_units);
	out->reset_after_ns = view.start_ns + step->limit->slots.period_ns - step->now_ns;
}

static void add_slot_uses(struct uses *uses, uint64_t units, uint64_t until_ns)
{
	if (units > 0)
		uses_add(uses, (struct uses_entry){units, until_ns, until_ns});
}

/* Adds the units in use to `uses`, with the end of each slot's units. */
static void read_slot_uses(const struct record_step *step, struct uses *uses)
{
	struct slots_view view = read_slots(step);
	struct live_slots live = live_slots_now(step);

	uses->until_ns = view.start_ns + step->limit->slots.period_ns;
	for (unsigned i = 0; view.kind != VOID && i < step->limit->slots.slots; i++) {
		struct cell cell = record_load(step->record, i);

		if (slots_is_live(&live, cell))
			add_slot_uses(uses, (uint64_t)cell_word(cell) + 1,
			              step->now_ns + (uint64_t)cell_ahead_ns(cell, step->now_ns));
	}
	add_slot_uses(uses, view.slot_units, uses->until_ns);
}

const struct record_ops record_slots = {decide_slots, all_units_in_use, read_slot_uses};
