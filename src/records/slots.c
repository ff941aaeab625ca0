/*
 * slots.c: decides calls on a sliding window or a sliding counter, which count units in slots:
 * equal parts of the limit's period.
 *
 * The newest slot with units is in the key's *header*, a cell in a table; the earlier ones are in
 * its *record*, an array of cells with one slot each. When now has reached a later slot, the header
 * is SEALED (its count is final), copied to its cell in the record, and swapped for the new slot. A
 * VOID header says that the record is of an earlier life of the key and does not count. A BARE one
 * stores no sum of the earlier slots, because its own count needs the space. A sliding
 * counter has two *weighted* slots, of which the older counts less and less (slots.h).
 *
 * A function `want_…` changes no cell: it describes the next swap in `*change`. The caller carries
 * it out and decides anew, until a change is RECORD_FINAL.
 */
#include "records/slots.h"

#include "algo/rates/weighted_slots.h"

enum {
	OPEN = SLOTS_OPEN,
	SEALED = SLOTS_SEALED,
	VOID = SLOTS_VOID,
	KINDS = SLOTS_KINDS,
	BARE = SLOTS_BARE,
};

struct cell slots_void(struct cell cell)
{
	return cell_with_generation(cell, VOID);
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
	if (params->slot_is_exact)
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

		units += slots_is_live(live, cell) ? slots_cell_units(cell) : 0;
	}
	return units;
}

/* The units of the record's slots that count at `at_ns` beside a header. */
static uint64_t sum_before_header(const struct record_step *step, struct cell header,
                                  uint64_t at_ns)
{
	const struct slots_params *params = &step->limit->slots;
	struct live_slots live = slots_live_at(params->period_ns, at_ns, header, step->record->tag);

	return sum_of_slots(step->record, params->slots, &live);
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

	if (view->kind == VOID || cell_ahead_ns(step->header, step->now_ns) <= (int64_t)params->slot_ns)
		return 0; /* all slots before are over */
	if (slots_header_has_sum(step->header) && !view->is_over)
		return cell_word(step->header) >> 16;
	return sum_before_header(step, step->header, step->now_ns);
}

/* Whether a header counts in as many slots as the limit has. Its form does not matter. */
static bool header_has_same_slots(const struct algo_limit *limit, struct cell header)
{
	return (cell_generation(header) / KINDS | BARE) == (limit->generation | BARE);
}

static uint64_t start_of_slot_at(const struct slots_params *params, uint64_t ns)
{
	return slots_start(params, slots_number(params, ns));
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
	struct slots_view view = {.kind = VOID};
	int64_t start_ahead_ns; /* of the header's slot */
	bool clock_was_set_back;

	if (!header_is_live(step->header, step->now_ns)) {
		view.start_ns = start_of_slot_at(params, step->now_ns);
		return view;
	}
	start_ahead_ns = cell_ahead_ns(step->header, step->now_ns) - (int64_t)params->period_ns;
	clock_was_set_back = start_ahead_ns > (int64_t)ALGO_SKEW_NS;
	if (cell_generation(step->header) == SLOTS_RESET && !clock_was_set_back) {
		start_ahead_ns = start_ahead_ns > 0 ? start_ahead_ns : 0;
		view.start_ns = start_of_slot_at(params, step->now_ns + (uint64_t)start_ahead_ns);
		return view;
	}
	if (!header_has_same_slots(step->limit, step->header) || clock_was_set_back) {
		view.start_ns = start_of_slot_at(params, step->now_ns);
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
	return sum_before_header(step, step->header, view->start_ns);
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

/* The slots of a sliding counter. */
static struct weighted_slots weighted_view(const struct slots_params *params,
                                           const struct slots_view *view, uint64_t now_ns)
{
	struct weighted_slots read = {view->start_ns, view->slot_units, view->earlier_units};

	return weighted_slots_at(params, read, now_ns);
}

static uint64_t units_in_use(const struct slots_params *params, const struct slots_view *view,
                             uint64_t now_ns)
{
	struct weighted_slots slots;

	if (!params->weighted)
		return view->earlier_units + view->slot_units;
	slots = weighted_view(params, view, now_ns);
	return weighted_units_in_use(params, &slots, now_ns);
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

/* Wants the copy of a sealed header, of slot number `slot`. Returns false if it is there. */
static bool want_sealed_copy(const struct record_step *step, uint64_t slot,
                             const struct slots_view *view, struct record_change *change)
{
	const struct slots_params *params = &step->limit->slots;

	change->index = (unsigned)(slot % params->slots);
	change->before = record_load(step->record, change->index);
	change->after =
	    cell_make(step->record->tag, view->start_ns + params->period_ns,
	              (uint32_t)(view->slot_units - 1), slots_cell_generation(step->limit->generation));
	if (cell_bits(change->before) == cell_bits(change->after))
		return false;
	change->want = RECORD_WANT_CELL;
	return true;
}

/*
 * Wants the next change of a sealed header: its copy in the record, or once that is there, a header
 * of a new slot with `units`, for which `*view` is updated. A refund needs a new slot without units
 * to go on, so that is not final.
 */
static void want_next_slot(const struct record_step *step, uint64_t units, struct slots_view *view,
                           struct record_change *change)
{
	const struct slots_params *params = &step->limit->slots;
	uint64_t sealed_slot = slots_number(params, view->start_ns), new_slot;
	struct cell without_sum;

	if (want_sealed_copy(step, sealed_slot, view, change))
		return;
	/* The slot of now, or if this thread's clock lags, the one after the sealed slot. */
	new_slot = u64_max(sealed_slot + 1, slots_number(params, step->now_ns));
	view->start_ns = slots_start(params, new_slot);
	without_sum = make_header(step, view->start_ns, OPEN, 0, units);
	view->earlier_units = sum_before_header(step, without_sum, step->now_ns);
	view->slot_units = units;
	want_header(change, make_header(step, view->start_ns, OPEN, view->earlier_units, units),
	            units > 0);
}

/* Wants the next change of an acquire: its units in the header's slot, or the end of that slot. */
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
		/* A sealed header no longer says that the record is of an earlier life. */
		change->voids_record_first = view->kind == VOID;
		return;
	}
	if (view->is_over) /* without units: moves on to the slot of now */
		view->start_ns = start_of_slot_at(&step->limit->slots, step->now_ns);
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
static uint64_t ns_until_slots_end(const struct record_step *step, const struct slots_view *view,
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
			if (slots_cell_units(cell) >= need)
				return (uint64_t)cell_ahead_ns(cell, step->now_ns);
			need -= slots_cell_units(cell);
		}
	}
	return view->start_ns + params->period_ns - step->now_ns;
}

/* How long until `cost` units are free, if `used` are in use now. */
static uint64_t ns_until_capacity(const struct record_step *step, const struct slots_view *view,
                                  uint64_t used, uint64_t cost)
{
	const struct slots_params *params = &step->limit->slots;
	struct weighted_slots slots;

	if (!params->weighted)
		return ns_until_slots_end(step, view, used + cost - params->count);
	slots = weighted_view(params, view, step->now_ns);
	return weighted_ns_until_capacity(params, &slots, step->now_ns, cost);
}

/* Wants up to `cost` units of the header's own slot refunded. */
static void want_refund_header(const struct record_step *step, uint64_t cost,
                               struct slots_view *view, struct record_change *change)
{
	uint64_t refunded = u64_min(cost, view->slot_units);
	uint64_t sum = 0; /* in the header: of the earlier slots when its slot began */
	bool is_final = refunded == cost;

	if (refunded == 0)
		return;
	if (view->kind != VOID)
		sum = slots_header_has_sum(step->header) ? cell_word(step->header) >> 16
		                                         : sum_at_slot_start(step, view);
	change->refunded = refunded;
	view->slot_units -= refunded;
	if (view->kind == VOID && view->slot_units == 0) /* a void header has units: see make_header */
		want_reset(step, view, is_final, change);
	else
		want_header(change, make_header(step, view->start_ns, view->kind, sum, view->slot_units),
		            is_final);
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

/* Wants units of the slot at `index` refunded, whose cell is change->before. */
static void want_refund_slot(const struct record_step *step, unsigned index,
                             struct record_change *change)
{
	uint64_t units = slots_cell_units(change->before);

	change->refunded = u64_min(step->call->cost, units);
	change->want = RECORD_WANT_CELL;
	change->index = index;
	change->after = change->before;
	if (change->refunded == units)
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
	bool is_of_any_slot = end_ns == 0;
	bool is_in_header = is_of_any_slot ? view->slot_units > 0
	                                   : end_ns == view->start_ns + step->limit->slots.period_ns;
	bool nothing_is_in_use = view->earlier_units + view->slot_units == 0;
	int index = -1;

	if (nothing_is_in_use) {
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
	if (view->kind == VOID) /* the record does not count */
		return;
	if (step->call->cost > 0)
		index = find_slot(step, end_ns, &change->before);
	if (index < 0) {
		want_lower_earlier_units(step, view, change);
		return;
	}
	want_refund_slot(step, (unsigned)index, change);
	change->older_slots = is_of_any_slot ? step->limit->slots.slots - 1 : 0;
}

/*
 * After a refund has emptied a slot of the record: wants the next older live slot refunded. The
 * caller has taken the units refunded so far off the call's cost. Returns false if no cost is left,
 * or no live slot among the change's `older_slots`.
 */
bool slots_refund_older(const struct record_step *step, struct record_change *change)
{
	const struct slots_params *params = &step->limit->slots;
	struct live_slots live = live_slots_now(step);

	while (step->call->cost > 0 && change->older_slots > 0) {
		change->older_slots--;
		change->index = change->index > 0 ? change->index - 1 : params->slots - 1;
		change->before = record_load(step->record, change->index);
		if (slots_is_live(&live, change->before)) {
			want_refund_slot(step, change->index, change);
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

/*
 * Sets `out`, which says that the call is allowed, to the decision on it, and `change` to the next
 * change that it takes.
 */
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
			                   ns_until_capacity(step, &view, used, cost));
			/* Stores the merge, so that it is not made again. */
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
	case ALGO_RESET:
		if (view.earlier_units + view.slot_units > 0) {
			want_reset(step, &view, RECORD_FINAL, change);
			view.earlier_units = view.slot_units = 0;
		}
		break;
	default:
		break;
	}
	out->remaining = sat_sub(params->count, units_in_use(params, &view, now_ns));
	out->reset_after_ns = ns_until_idle(step, &view);
}

/*
 * The fast path of an acquire in a later slot than the header's, with slots_open(): sets
 * `change->header` to the sealed header, which the caller swaps in. Returns false if the general
 * step has to decide.
 */
bool slots_seal(const struct record_step *step, struct record_change *change)
{
	const struct slots_params *params = &step->limit->slots;
	int64_t ahead_ns = cell_ahead_ns(step->header, step->now_ns);
	struct slots_view view = {.start_ns = step->now_ns + (uint64_t)ahead_ns - params->period_ns,
	                          .slot_units = slots_header_units(step->header),
	                          .kind = OPEN,
	                          .is_over = true};
	bool is_open = cell_generation(step->header) == step->limit->generation * KINDS + OPEN;

	if (!is_open || params->weighted || view.slot_units == 0 || ahead_ns <= 0 ||
	    !slot_is_over(params, view.start_ns, step->now_ns))
		return false;
	if (read_earlier_units(step, &view) + view.slot_units + step->call->cost > params->count)
		return false; /* the acquire may have to be denied */
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
			add_slot_uses(uses, slots_cell_units(cell),
			              step->now_ns + (uint64_t)cell_ahead_ns(cell, step->now_ns));
	}
	add_slot_uses(uses, view.slot_units, uses->until_ns);
}

const struct record_ops record_slots = {decide_slots, all_units_in_use, read_slot_uses};
