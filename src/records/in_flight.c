/*
 * in_flight.c: stores the permits of an adaptive limit that are in flight, and the measurements
 * made from their reports, in the cells of a key's record.
 *
 * The key's *header*, a cell in the limit's table, counts nothing: it retains the record. A VOID
 * header says that the record is of an earlier life of the key. One cell counts all permits, by the
 * *part* of time (a fifth of a permit's timeout) in which they were given: a part leaves the cell
 * when its permits have timed out. Two cells store the *headroom*: how far priority classes may
 * exceed the limit. A cell has the key's tag and 96 bits of content (in_flight.h).
 */
#include "records/in_flight.h"

#define COUNTS_AT   0
#define REQUESTS_AT 1
#define CAPACITY_AT 2
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

/* The header of a new life of the key. Its word is a number that tells this life from others. */
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

/* Whether the header retains the record until `part` times out, and is not too far ahead. */
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

/* Permits */

/*
 * The counts store only the low 12 bits of their part's number. Returns a part near it, from which
 * the whole number follows. A pinned header's `until` was computed from their part, so it is right
 * whatever the clock does since.
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

/* The part is the number nearest to `near_part` that has the stored low bits. */
static struct in_flight_counts unpack_counts(struct cell cell, uint64_t near_part)
{
	u128 bits = bits_of(cell), given = bits >> PART_BITS;
	unsigned shift = 64 - PART_BITS;
	int64_t difference = (int64_t)((bits - near_part) << shift) >> shift; /* extends the sign */

	return (struct in_flight_counts){near_part + (uint64_t)difference, given, sum_of_parts(given)};
}

static struct cell pack_counts(struct in_flight_counts counts, uint32_t tag)
{
	return cell_of(counts.given_per_part << PART_BITS | (counts.part & ((1U << PART_BITS) - 1)),
	               tag);
}

/* Makes `now_part` the newest part. Permits of parts that are then too old are dropped. */
static void advance_counts(struct in_flight_counts *counts, uint64_t now_part)
{
	uint64_t parts = now_part - counts->part;

	counts->part = now_part;
	counts->given_per_part =
	    parts < IN_FLIGHT_PARTS
	        ? counts->given_per_part << parts * IN_FLIGHT_GIVEN_BITS & GIVEN_MASK
	        : 0;
	counts->total = sum_of_parts(counts->given_per_part);
}

/* Stores `after`, also in `snapshot`. Returns false if another thread has changed the counts. */
static inline bool swap_counts(const struct record_state *at, struct in_flight_snapshot *snapshot,
                               struct in_flight_counts after)
{
	struct cell cell = pack_counts(after, at->record.tag);

	if (!record_swap(at, COUNTS_AT, snapshot->counts_cell, cell))
		return false;
	snapshot->counts_cell = cell;
	snapshot->counts = after;
	snapshot->in_flight = after.total;
	snapshot->timed_out = 0;
	return true;
}

/* Stores the counts of the snapshot, in which permits that have timed out do not count. */
bool in_flight_drop_timed_out(const struct record_state *at, struct in_flight_snapshot *snapshot)
{
	return swap_counts(at, snapshot, snapshot->counts);
}

/* Adds a permit to the newest part. Returns false if the cell has changed or can't count it. */
bool in_flight_acquire(const struct record_state *at, struct in_flight_snapshot *snapshot)
{
	const struct in_flight_counts *before = &snapshot->counts;

	return in_flight_given_before(before, 0) < IN_FLIGHT_GIVEN_MAX &&
	       swap_counts(at, snapshot,
	                   (struct in_flight_counts){before->part, before->given_per_part + 1,
	                                             before->total + 1});
}

/* Takes `n` permits of `part` off the counts. Returns false if the cell has changed. */
bool in_flight_release(const struct record_state *at, struct in_flight_snapshot *snapshot,
                       uint64_t part, uint64_t n)
{
	const struct in_flight_counts *before = &snapshot->counts;
	u128 less = (u128)n << (before->part - part) * IN_FLIGHT_GIVEN_BITS;

	return swap_counts(
	    at, snapshot,
	    (struct in_flight_counts){before->part, before->given_per_part - less, before->total - n});
}

bool in_flight_is_unchanged(const struct record_state *at,
                            const struct in_flight_snapshot *snapshot)
{
	return cell_bits(record_load(&at->record, COUNTS_AT)) == cell_bits(snapshot->counts_cell);
}

/* Stores one changed cell of the estimate. Returns false if another thread has changed it. */
bool in_flight_store_estimate(const struct record_state *at, struct in_flight_snapshot *snapshot,
                              const struct estimate_change *change)
{
	unsigned index = change->index;
	struct cell after = {(uint64_t)at->record.tag << 32 | change->after.low, change->after.high};

	if (!record_swap(at, ESTIMATE_AT + index, snapshot->estimate_stored[index], after))
		return false;
	snapshot->estimate_stored[index] = after;
	snapshot->estimate[index] = change->after;
	return true;
}

/* Headroom */

#define LAST_REQUEST_BITS 8
#define CAPACITY_BITS     10

_Static_assert(PRIORITY_CLASSES *LAST_REQUEST_BITS + PRIORITY_CLASSES <= 96 &&
                   PRIORITY_LOWEST * CAPACITY_BITS <= 96,
               "they fit into a cell beside its tag");

/* The bits of a cell; 0 if it is another key's. */
static u128 bits_of_own_cell(struct cell cell, uint32_t tag)
{
	return cell_tag(cell) == tag ? bits_of(cell) : 0;
}

/* Reads the headroom from its two cells: fields of one width each, the first class lowest. */
static void unpack_headroom(uint32_t tag, struct in_flight_snapshot *snapshot)
{
	u128 requests, capacity;

	snapshot->headroom = (struct headroom){0};
	snapshot->has_priorities = false;
	if (cell_tag(snapshot->requests_cell) != tag && cell_tag(snapshot->capacity_cell) != tag)
		return;
	requests = bits_of_own_cell(snapshot->requests_cell, tag);
	capacity = bits_of_own_cell(snapshot->capacity_cell, tag);
	snapshot->has_priorities = requests != 0;
	for (unsigned c = 0; c < PRIORITY_CLASSES; c++, requests >>= LAST_REQUEST_BITS)
		snapshot->headroom.last_request_second[c] = (uint8_t)requests;
	snapshot->headroom.lower_passed_bits = (uint16_t)requests;
	for (unsigned c = 0; c < PRIORITY_LOWEST; c++, capacity >>= CAPACITY_BITS)
		snapshot->headroom.extra_requests[c] = (uint16_t)(capacity & ((1U << CAPACITY_BITS) - 1));
}

/* Stores `after` in the cells that it changes. Returns false if another thread changed one. */
bool in_flight_store_headroom(const struct record_state *at,
                              const struct in_flight_snapshot *snapshot,
                              const struct headroom *after)
{
	u128 requests = after->lower_passed_bits, capacity = 0;

	for (unsigned c = PRIORITY_CLASSES; c-- > 0;)
		requests = requests << LAST_REQUEST_BITS | after->last_request_second[c];
	for (unsigned c = PRIORITY_LOWEST; c-- > 0;)
		capacity = capacity << CAPACITY_BITS | after->extra_requests[c];
	if (requests != bits_of_own_cell(snapshot->requests_cell, at->record.tag) &&
	    !record_swap(at, REQUESTS_AT, snapshot->requests_cell, cell_of(requests, at->record.tag)))
		return false;
	return capacity == bits_of_own_cell(snapshot->capacity_cell, at->record.tag) ||
	       record_swap(at, CAPACITY_AT, snapshot->capacity_cell, cell_of(capacity, at->record.tag));
}

/* Reads the permits in flight now, and how many have timed out since the cell was written. */
static void read_counts(const struct algo_limit *limit, uint64_t now_ns, struct cell header,
                        const struct record *record, struct in_flight_snapshot *snapshot)
{
	uint64_t now_part = in_flight_part(&limit->in_flight, now_ns), stored_total;

	snapshot->counts = (struct in_flight_counts){.part = now_part};
	if (cell_tag(snapshot->counts_cell) == record->tag)
		snapshot->counts =
		    unpack_counts(snapshot->counts_cell, part_near_counts(limit, header, now_ns));
	stored_total = snapshot->counts.total;
	if (stored_total == 0) /* the header is not pinned then, so the part may be misread */
		snapshot->counts.part = now_part;
	else if (snapshot->counts.part < now_part)
		advance_counts(&snapshot->counts, now_part);
	/* Otherwise a clock ahead of this one has counted in a newer part: that stays the newest. */
	snapshot->in_flight = snapshot->counts.total;
	snapshot->timed_out = stored_total - snapshot->in_flight;
}

/* Reads all cells of the record. A record without cells reads as empty. */
void in_flight_read(const struct algo_limit *limit, uint64_t now_ns, struct cell header,
                    const struct record *record, struct in_flight_snapshot *snapshot)
{
	const struct cell none = {0, 0};
	bool has_record = record->cells != NULL;

	snapshot->counts_cell = has_record ? record_load(record, COUNTS_AT) : none;
	read_counts(limit, now_ns, header, record, snapshot);
	snapshot->requests_cell = has_record ? record_load(record, REQUESTS_AT) : none;
	snapshot->capacity_cell = has_record ? record_load(record, CAPACITY_AT) : none;
	unpack_headroom(record->tag, snapshot);
	/* The first cell last: it says to which estimate the others belong. */
	for (unsigned i = estimate_cells(limit->in_flight.method); i-- > 0;) {
		struct cell stored = has_record ? record_load(record, ESTIMATE_AT + i) : none;
		bool is_own = cell_tag(stored) == record->tag;

		snapshot->estimate_stored[i] = stored;
		snapshot->estimate[i] = is_own ? (struct estimate_cell){stored.high, cell_word(stored)}
		                               : (struct estimate_cell){0, 0};
	}
}
