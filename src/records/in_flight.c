#include "records/in_flight.h"

#define COUNTS_AT   0
#define SEEN_AT     1
#define ROOM_AT     2
#define ESTIMATE_AT IN_FLIGHT_CELLS

#define VOID 1 /* the generation of a VOID header */

#define PART_BITS  12
#define GIVEN_MASK (((u128)1 << IN_FLIGHT_PARTS * IN_FLIGHT_GIVEN_BITS) - 1)
#define PARTS_NEAR                                                                                 \
	(1U << (PART_BITS - 1)) /* within this distance a part's number is unambiguous                 \
	                         */

_Static_assert(IN_FLIGHT_PARTS % 2 == 0, "parts have halves");
_Static_assert(ALGO_PERMITS_MAX <= IN_FLIGHT_GIVEN_MAX, "all may be given in one part");
_Static_assert(PART_BITS + IN_FLIGHT_PARTS * IN_FLIGHT_GIVEN_BITS == 96,
               "they fill a cell beside its tag");

/* The header */

static uint64_t header_ahead_max_ns(const struct algo_limit *limit)
{
	return u64_max(IN_FLIGHT_RETENTION_NS, IN_FLIGHT_PARTS * limit->in_flight.part_ns) +
	       ALGO_SKEW_NS;
}

/* Whether a clock that was set back since has written the header. Its record is ignored then. */
static bool header_is_too_far(const struct algo_limit *limit, struct cell header, uint64_t now_ns)
{
	return cell_ahead_ns(header, now_ns) > (int64_t)header_ahead_max_ns(limit);
}

enum in_flight_header in_flight_header_of(const struct algo_limit *limit,
                                          const struct record_state *at, uint64_t now_ns)
{
	if (!at->cell || cell_tag(at->header) != at->record.tag ||
	    !header_is_live(at->header, now_ns) || header_is_too_far(limit, at->header, now_ns))
		return IN_FLIGHT_NONE;
	return cell_generation(at->header) == VOID ? IN_FLIGHT_VOID : IN_FLIGHT_OPEN;
}

struct cell in_flight_void_header(const struct algo_limit *limit, uint32_t tag, uint64_t now_ns)
{
	uint32_t life = (uint32_t)(now_ns * UINT64_C(0x9e3779b97f4a7c15) >> 32) & RECORD_WORD_MASK;

	return cell_make(tag,
	                 in_flight_end_ns(&limit->in_flight, in_flight_part(&limit->in_flight, now_ns)),
	                 life, VOID);
}

struct cell in_flight_spent_header(uint32_t tag, uint64_t now_ns)
{
	return cell_make(tag, now_ns, 0, VOID);
}

struct cell in_flight_pinned_header(const struct algo_limit *limit, struct cell header,
                                    uint64_t part)
{
	return cell_make(cell_tag(header), in_flight_end_ns(&limit->in_flight, part),
	                 cell_word(header) & ~RECORD_CLOSING, CELL_PINNED);
}

bool in_flight_header_fits(const struct algo_limit *limit, struct cell header, uint32_t tag,
                           uint64_t part)
{
	uint64_t end_ns = in_flight_end_ns(&limit->in_flight, part);

	return header_pins_record(header, tag, end_ns) &&
	       (uint64_t)cell_ahead_ns(header, end_ns) < PARTS_NEAR * limit->in_flight.part_ns;
}

struct cell in_flight_idle_header(struct cell header, uint64_t now_ns)
{
	return cell_make(cell_tag(header), now_ns + IN_FLIGHT_RETENTION_NS,
	                 cell_word(header) & ~RECORD_CLOSING, 0);
}

/* Cells: a tag and 96 bits */

static u128 bits_of(struct cell cell)
{
	return (u128)cell.high << 32 | cell_word(cell);
}

static struct cell cell_of(u128 bits, uint32_t tag)
{
	return (struct cell){(uint64_t)tag << 32 | (uint32_t)bits, (uint64_t)(bits >> 32)};
}

static struct cell empty_cell(struct cell cell)
{
	(void)cell;
	return (struct cell){0, 0};
}

bool in_flight_clean(const struct algo_limit *limit, const struct record_state *at)
{
	return record_void_cells(at, ESTIMATE_AT + estimate_cells(limit->in_flight.method), empty_cell);
}

/* Flights */

/*
 * A part near that of the stored counts, which tells their whole number. A pinned header's `until`
 * was computed from their part, so it is right whatever the clock does since.
 */
static uint64_t part_near_counts(const struct algo_limit *limit, struct cell header,
                                 uint64_t now_ns)
{
	const struct in_flight_params *params = &limit->in_flight;
	uint64_t end_ns = now_ns + (uint64_t)cell_ahead_ns(header, now_ns);

	return cell_is_pinned(header) ? in_flight_part_of(params, end_ns) - IN_FLIGHT_PARTS
	                              : in_flight_part(params, now_ns);
}

/* Adds in two halves, since a shift of 64 bits takes one instruction. */
static uint64_t sum_of_parts(u128 given)
{
	uint64_t newer = (uint64_t)given, sum = 0;
	uint64_t older = (uint64_t)(given >> IN_FLIGHT_PARTS / 2 * IN_FLIGHT_GIVEN_BITS);

	for (unsigned i = 0; i < IN_FLIGHT_PARTS / 2; i++) {
		sum += (newer & IN_FLIGHT_GIVEN_MAX) + (older & IN_FLIGHT_GIVEN_MAX);
		newer >>= IN_FLIGHT_GIVEN_BITS;
		older >>= IN_FLIGHT_GIVEN_BITS;
	}
	return sum;
}

static struct in_flight_counts unpack_counts(struct cell cell, uint64_t near)
{
	u128 bits = bits_of(cell), given = bits >> PART_BITS;
	unsigned shift = 64 - PART_BITS;

	return (struct in_flight_counts){near + (uint64_t)((int64_t)((bits - near) << shift) >> shift),
	                                 given, sum_of_parts(given)};
}

static struct cell pack_counts(struct in_flight_counts counts, uint32_t tag)
{
	return cell_of(counts.given << PART_BITS | (counts.part & ((1U << PART_BITS) - 1)), tag);
}

/* Advances the counts to a later part. */
static void advance_counts(struct in_flight_counts *counts, uint64_t now_part)
{
	uint64_t parts = now_part - counts->part;

	counts->part = now_part;
	counts->given =
	    parts < IN_FLIGHT_PARTS ? counts->given << parts * IN_FLIGHT_GIVEN_BITS & GIVEN_MASK : 0;
	counts->sum = sum_of_parts(counts->given);
}

static inline bool swap_counts(const struct record_state *at, struct in_flight_snapshot *snapshot,
                               struct in_flight_counts after)
{
	struct cell cell = pack_counts(after, at->record.tag);

	if (!record_swap(at, COUNTS_AT, snapshot->cell, cell))
		return false;
	snapshot->cell = cell;
	snapshot->counts = after;
	snapshot->in_flight = after.sum;
	snapshot->lost = 0;
	return true;
}

bool in_flight_store_expiry(const struct record_state *at, struct in_flight_snapshot *snapshot)
{
	return swap_counts(at, snapshot, snapshot->counts);
}

bool in_flight_acquire(const struct record_state *at, struct in_flight_snapshot *snapshot)
{
	const struct in_flight_counts *before = &snapshot->counts;

	return in_flight_before(before, 0) < IN_FLIGHT_GIVEN_MAX &&
	       swap_counts(at, snapshot,
	                   (struct in_flight_counts){before->part, before->given + 1, before->sum + 1});
}

bool in_flight_release(const struct record_state *at, struct in_flight_snapshot *snapshot,
                       uint64_t part, uint64_t n)
{
	const struct in_flight_counts *before = &snapshot->counts;
	u128 less = (u128)n << (before->part - part) * IN_FLIGHT_GIVEN_BITS;

	return swap_counts(
	    at, snapshot,
	    (struct in_flight_counts){before->part, before->given - less, before->sum - n});
}

bool in_flight_is_unchanged(const struct record_state *at,
                            const struct in_flight_snapshot *snapshot)
{
	return cell_bits(record_load(&at->record, COUNTS_AT)) == cell_bits(snapshot->cell);
}

bool in_flight_store_estimate(const struct record_state *at, struct in_flight_snapshot *snapshot,
                              const struct estimate_change *change)
{
	unsigned index = change->index;
	struct cell after = {(uint64_t)at->record.tag << 32 | change->after.low, change->after.high};

	if (!record_swap(at, ESTIMATE_AT + index, snapshot->kept[index], after))
		return false;
	snapshot->kept[index] = after;
	snapshot->estimate[index] = change->after;
	return true;
}

/* Headroom */

#define SEEN_BITS 8
#define ROOM_BITS 10

_Static_assert(PRIORITY_CLASSES *SEEN_BITS + PRIORITY_CLASSES <= 96 &&
                   PRIORITY_LOWEST * ROOM_BITS <= 96,
               "they fit into a cell beside its tag");

/* The bits of a cell; 0 if it is another key's. */
static u128 bits_of_own_cell(struct cell cell, uint32_t tag)
{
	return cell_tag(cell) == tag ? bits_of(cell) : 0;
}

static void unpack_headroom(uint32_t tag, struct in_flight_snapshot *snapshot)
{
	u128 seen, room;

	snapshot->headroom = (struct headroom){0};
	snapshot->has_priorities = false;
	if (cell_tag(snapshot->seen) != tag && cell_tag(snapshot->room) != tag)
		return;
	seen = bits_of_own_cell(snapshot->seen, tag);
	room = bits_of_own_cell(snapshot->room, tag);
	snapshot->has_priorities = seen != 0;
	for (unsigned c = 0; c < PRIORITY_CLASSES; c++, seen >>= SEEN_BITS)
		snapshot->headroom.last_request[c] = (uint8_t)seen;
	snapshot->headroom.passed_below = (uint16_t)seen;
	for (unsigned c = 0; c < PRIORITY_LOWEST; c++, room >>= ROOM_BITS)
		snapshot->headroom.room[c] = (uint16_t)(room & ((1U << ROOM_BITS) - 1));
}

bool in_flight_store_headroom(const struct record_state *at,
                              const struct in_flight_snapshot *snapshot,
                              const struct headroom *after)
{
	u128 seen = after->passed_below, room = 0;

	for (unsigned c = PRIORITY_CLASSES; c-- > 0;)
		seen = seen << SEEN_BITS | after->last_request[c];
	for (unsigned c = PRIORITY_LOWEST; c-- > 0;)
		room = room << ROOM_BITS | after->room[c];
	if (seen != bits_of_own_cell(snapshot->seen, at->record.tag) &&
	    !record_swap(at, SEEN_AT, snapshot->seen, cell_of(seen, at->record.tag)))
		return false;
	return room == bits_of_own_cell(snapshot->room, at->record.tag) ||
	       record_swap(at, ROOM_AT, snapshot->room, cell_of(room, at->record.tag));
}

static void read_counts(const struct algo_limit *limit, uint64_t now_ns, struct cell header,
                        const struct record *record, struct in_flight_snapshot *snapshot)
{
	uint64_t now_part = in_flight_part(&limit->in_flight, now_ns), before;

	snapshot->counts = (struct in_flight_counts){.part = now_part};
	if (cell_tag(snapshot->cell) == record->tag)
		snapshot->counts = unpack_counts(snapshot->cell, part_near_counts(limit, header, now_ns));
	before = snapshot->counts.sum;
	if (before == 0) /* without permits the number may be ambiguous, so take the part of now */
		snapshot->counts.part = now_part;
	else if (snapshot->counts.part < now_part) /* a clock that lags counts in the newer part */
		advance_counts(&snapshot->counts, now_part);
	snapshot->in_flight = snapshot->counts.sum;
	snapshot->lost = before - snapshot->in_flight;
}

void in_flight_read(const struct algo_limit *limit, uint64_t now_ns, struct cell header,
                    const struct record *record, struct in_flight_snapshot *snapshot)
{
	const struct cell none = {0, 0};
	bool has_record = record->cells != NULL;

	snapshot->cell = has_record ? record_load(record, COUNTS_AT) : none;
	read_counts(limit, now_ns, header, record, snapshot);
	snapshot->seen = has_record ? record_load(record, SEEN_AT) : none;
	snapshot->room = has_record ? record_load(record, ROOM_AT) : none;
	unpack_headroom(record->tag, snapshot);
	/* The first cell last: it says to which estimate the others belong. */
	for (unsigned i = estimate_cells(limit->in_flight.method); i-- > 0;) {
		struct cell kept = has_record ? record_load(record, ESTIMATE_AT + i) : none;
		bool own = cell_tag(kept) == record->tag;

		snapshot->kept[i] = kept;
		snapshot->estimate[i] =
		    own ? (struct estimate_cell){kept.high, cell_word(kept)} : (struct estimate_cell){0, 0};
	}
}
