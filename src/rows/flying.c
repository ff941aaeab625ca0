#include "rows/flying.h"

#define FLIGHTS_AT  0
#define SEEN_AT     1
#define ROOM_AT     2
#define ESTIMATE_AT FLYING_CELLS

#define VOID 1 /* a head's generation */

#define PART_BITS  12
#define GIVEN_MASK (((u128)1 << FLYING_PARTS * FLYING_GIVEN_BITS) - 1)
#define PARTS_NEAR (1U << (PART_BITS - 1)) /* so far from a known part a number is clear */

_Static_assert(FLYING_PARTS % 2 == 0, "parts have halves");
_Static_assert(ALGO_PERMITS_MAX <= FLYING_GIVEN_MAX, "all may be given in one part");
_Static_assert(PART_BITS + FLYING_PARTS * FLYING_GIVEN_BITS == 96, "they fill a cell beside its tag");

/* The head */

static uint64_t farthest_ns(const struct algo_limit *limit)
{
	return u64_max(FLYING_KEEP_NS, FLYING_PARTS * limit->flying.part_ns) + ALGO_SKEW_NS;
}

/* A clock that was set back since has left it too far ahead: what it keeps is not believed. */
static bool is_far(const struct algo_limit *limit, struct cell head, uint64_t now_ns)
{
	return cell_ahead_ns(head, now_ns) > (int64_t)farthest_ns(limit);
}

enum flying_head flying_head_of(const struct algo_limit *limit, const struct row_state *at,
                                uint64_t now_ns)
{
	if (!at->cell || cell_tag(at->head) != at->row.tag || !row_head_live(at->head, now_ns) ||
	    is_far(limit, at->head, now_ns))
		return FLYING_NONE;
	return cell_generation(at->head) == VOID ? FLYING_VOID : FLYING_OPEN;
}

struct cell flying_void(const struct algo_limit *limit, uint32_t tag, uint64_t now_ns)
{
	uint32_t life = (uint32_t)(now_ns * UINT64_C(0x9e3779b97f4a7c15) >> 32) & ROW_WORD_MASK;

	return cell_make(tag, flying_end_ns(&limit->flying, flying_part(&limit->flying, now_ns)), life,
	                 VOID);
}

struct cell flying_spent(uint32_t tag, uint64_t now_ns)
{
	return cell_make(tag, now_ns, 0, VOID);
}

struct cell flying_held(const struct algo_limit *limit, struct cell head, uint64_t part)
{
	return cell_make(cell_tag(head), flying_end_ns(&limit->flying, part),
	                 cell_word(head) & ~ROW_CLOSING, CELL_PINNED);
}

bool flying_fits(const struct algo_limit *limit, struct cell head, uint32_t tag, uint64_t part)
{
	uint64_t end_ns = flying_end_ns(&limit->flying, part);

	return row_is_held(head, tag, end_ns) &&
	       (uint64_t)cell_ahead_ns(head, end_ns) < PARTS_NEAR * limit->flying.part_ns;
}

struct cell flying_rest(struct cell head, uint64_t now_ns)
{
	return cell_make(cell_tag(head), now_ns + FLYING_KEEP_NS, cell_word(head) & ~ROW_CLOSING, 0);
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

static struct cell empty(struct cell cell)
{
	(void)cell;
	return (struct cell){0, 0};
}

bool flying_clean(const struct algo_limit *limit, const struct row_state *at)
{
	return rows_clean(at, ESTIMATE_AT + estimate_cells(limit->flying.method), empty);
}

/* Flights */

/*
 * A part near to that of the flights. A held head has been made to fit them, and says it whatever the
 * clock does: a clock that was set back may be any number of parts from them.
 */
static uint64_t near_part(const struct algo_limit *limit, struct cell head, uint64_t now_ns)
{
	const struct flying_params *params = &limit->flying;
	uint64_t end_ns = now_ns + (uint64_t)cell_ahead_ns(head, now_ns);

	return cell_is_pinned(head) ? flying_part_of(params, end_ns) - FLYING_PARTS
	                            : flying_part(params, now_ns);
}

/* Of halves, since a shift of 64 bits takes one instruction. */
static uint64_t sum_of(u128 given)
{
	uint64_t newer = (uint64_t)given, sum = 0;
	uint64_t older = (uint64_t)(given >> FLYING_PARTS / 2 * FLYING_GIVEN_BITS);

	for (unsigned i = 0; i < FLYING_PARTS / 2; i++) {
		sum += (newer & FLYING_GIVEN_MAX) + (older & FLYING_GIVEN_MAX);
		newer >>= FLYING_GIVEN_BITS;
		older >>= FLYING_GIVEN_BITS;
	}
	return sum;
}

static struct flights unpack(struct cell cell, uint64_t near)
{
	u128 bits = bits_of(cell), given = bits >> PART_BITS;
	unsigned shift = 64 - PART_BITS;

	return (struct flights){near + (uint64_t)((int64_t)((bits - near) << shift) >> shift), given,
	                        sum_of(given)};
}

static struct cell pack(struct flights flights, uint32_t tag)
{
	return cell_of(flights.given << PART_BITS | (flights.part & ((1U << PART_BITS) - 1)), tag);
}

/* As it is in a later part. */
static void go_on(struct flights *flights, uint64_t now_part)
{
	uint64_t parts = now_part - flights->part;

	flights->part = now_part;
	flights->given = parts < FLYING_PARTS
	                     ? flights->given << parts * FLYING_GIVEN_BITS & GIVEN_MASK
	                     : 0;
	flights->sum = sum_of(flights->given);
}

static inline bool swap_flights(const struct row_state *at, struct flying_look *look,
                                struct flights after)
{
	struct cell cell = pack(after, at->row.tag);

	if (!row_swap(at, FLIGHTS_AT, look->cell, cell))
		return false;
	look->cell = cell;
	look->flights = after;
	look->in_flight = after.sum;
	look->lost = 0;
	return true;
}

bool flying_settle(const struct row_state *at, struct flying_look *look)
{
	return swap_flights(at, look, look->flights);
}

bool flying_give(const struct row_state *at, struct flying_look *look)
{
	const struct flights *before = &look->flights;

	return flights_given(before, 0) < FLYING_GIVEN_MAX &&
	       swap_flights(at, look,
	                    (struct flights){before->part, before->given + 1, before->sum + 1});
}

bool flying_take(const struct row_state *at, struct flying_look *look, uint64_t part, uint64_t n)
{
	const struct flights *before = &look->flights;
	u128 less = (u128)n << (before->part - part) * FLYING_GIVEN_BITS;

	return swap_flights(at, look,
	                    (struct flights){before->part, before->given - less, before->sum - n});
}

bool flying_still(const struct row_state *at, const struct flying_look *look)
{
	return cell_bits(row_load(&at->row, FLIGHTS_AT)) == cell_bits(look->cell);
}

bool flying_learn(const struct row_state *at, struct flying_look *look,
                  const struct estimate_change *change)
{
	unsigned place = change->place;
	struct cell after = {(uint64_t)at->row.tag << 32 | change->after.low, change->after.high};

	if (!row_swap(at, ESTIMATE_AT + place, look->kept[place], after))
		return false;
	look->kept[place] = after;
	look->estimate[place] = change->after;
	return true;
}

/* Headroom */

#define SEEN_BITS 8
#define ROOM_BITS 10

_Static_assert(PRIORITY_CLASSES * SEEN_BITS + PRIORITY_CLASSES <= 96 &&
                   PRIORITY_LOWEST * ROOM_BITS <= 96,
               "they fit into a cell beside its tag");

/* The bits of a cell that is the key's. */
static u128 own_bits(struct cell cell, uint32_t tag)
{
	return cell_tag(cell) == tag ? bits_of(cell) : 0;
}

static void unpack_headroom(uint32_t tag, struct flying_look *look)
{
	u128 seen, room;

	look->headroom = (struct headroom){0};
	look->has_priorities = false;
	if (cell_tag(look->seen) != tag && cell_tag(look->room) != tag)
		return;
	seen = own_bits(look->seen, tag);
	room = own_bits(look->room, tag);
	look->has_priorities = seen != 0;
	for (unsigned c = 0; c < PRIORITY_CLASSES; c++, seen >>= SEEN_BITS)
		look->headroom.seen[c] = (uint8_t)seen;
	look->headroom.passed_below = (uint16_t)seen;
	for (unsigned c = 0; c < PRIORITY_LOWEST; c++, room >>= ROOM_BITS)
		look->headroom.room[c] = (uint16_t)(room & ((1U << ROOM_BITS) - 1));
}

bool flying_prefer(const struct row_state *at, const struct flying_look *look,
                   const struct headroom *after)
{
	u128 seen = after->passed_below, room = 0;

	for (unsigned c = PRIORITY_CLASSES; c-- > 0;)
		seen = seen << SEEN_BITS | after->seen[c];
	for (unsigned c = PRIORITY_LOWEST; c-- > 0;)
		room = room << ROOM_BITS | after->room[c];
	if (seen != own_bits(look->seen, at->row.tag) &&
	    !row_swap(at, SEEN_AT, look->seen, cell_of(seen, at->row.tag)))
		return false;
	return room == own_bits(look->room, at->row.tag) ||
	       row_swap(at, ROOM_AT, look->room, cell_of(room, at->row.tag));
}

static void look_at_flights(const struct algo_limit *limit, uint64_t now_ns, struct cell head,
                            const struct row *row, struct flying_look *look)
{
	uint64_t now_part = flying_part(&limit->flying, now_ns), before;

	look->flights = (struct flights){.part = now_part};
	if (cell_tag(look->cell) == row->tag)
		look->flights = unpack(look->cell, near_part(limit, head, now_ns));
	before = look->flights.sum;
	if (before == 0) /* an old number may look as if it were to come */
		look->flights.part = now_part;
	else if (look->flights.part < now_part) /* a lagging clock counts in it */
		go_on(&look->flights, now_part);
	look->in_flight = look->flights.sum;
	look->lost = before - look->in_flight;
}

void flying_look(const struct algo_limit *limit, uint64_t now_ns, struct cell head,
                 const struct row *row, struct flying_look *look)
{
	const struct cell none = {0, 0};
	bool has_row = row->cells != NULL;

	look->cell = has_row ? row_load(row, FLIGHTS_AT) : none;
	look_at_flights(limit, now_ns, head, row, look);
	look->seen = has_row ? row_load(row, SEEN_AT) : none;
	look->room = has_row ? row_load(row, ROOM_AT) : none;
	unpack_headroom(row->tag, look);
	/* The first one last: what others are of, it says. */
	for (unsigned i = estimate_cells(limit->flying.method); i-- > 0;) {
		struct cell kept = has_row ? row_load(row, ESTIMATE_AT + i) : none;
		bool own = cell_tag(kept) == row->tag;

		look->kept[i] = kept;
		look->estimate[i] = own ? (struct estimate_cell){kept.high, cell_word(kept)}
		                        : (struct estimate_cell){0, 0};
	}
}
