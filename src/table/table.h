/*
 * table.h: implements the key table: bounded, lock-free, free of pointers.
 *
 * A key's hash gives a tag of 32 bits, a home set of eight cells, and a run of
 * five sets elsewhere for when the home is full. The key lives in the first of
 * these spots that was free, or is idle. docs/design/key-table.md says how two
 * threads that meet on a new key end in one cell, and why; in short:
 *
 *   - A thread that finds no cell of its tag claims one (a cell that says nothing),
 *     then looks at all the spots again.
 *   - A claim becomes a state only by a compare-and-swap of a thread that has
 *     seen no other cell of that tag since the claim was made. Other claims
 *     are removed first, higher addresses giving way to lower ones.
 *   - Every claim is unlike every other, so none is mistaken for an earlier one.
 *
 * All functions may be called from any thread, and from any process that maps
 * the same table.
 */
#ifndef TABLE_TABLE_H
#define TABLE_TABLE_H

#include <stddef.h>
#include <stdint.h>
#if defined(__SSE2__)
#include <emmintrin.h>
#endif

#include <weir/weir.h>

#include "base/cell.h"
#include "base/hash.h"
#include "base/os/prefetch.h"

#define TABLE_SET_CELLS 8 /* two cache lines */
#define TABLE_RUN_SETS  5
#define TABLE_CANDIDATES (TABLE_SET_CELLS * (1 + TABLE_RUN_SETS))

#define TABLE_MAGIC      "WEIRTBL" /* with its NUL */
#define TABLE_BYTE_ORDER 0x01020304
#define TABLE_VERSION    5

/* The part of a header that never changes, from `magic` to `size`. */
#define TABLE_FIXED 80

/* The first bytes of a table's memory, drawn in docs/design/key-table.md. */
struct table_header {
	char magic[8];       /* "WEIRTBL\0" */
	uint32_t byte_order; /* 0x01020304 as written */
	uint32_t version;
	uint32_t header_size, cell_size;
	uint16_t set_cells;
	uint16_t stays;     /* not 0: its keys stay here while they live, and new ones go elsewhere */
	uint32_t record_cells; /* of the row behind each cell; 0 if states are one word */
	uint64_t capacity, sets;
	struct hash_key secret;
	uint64_t identity;  /* of the limit with these states; 0 for all limits of one word */
	uint64_t size;      /* bytes, rows included */
	struct cell clock;  /* of a file: the boot of the system, wall minus monotonic clock */
	uint64_t recorded_ns; /* of a file: a late reading of that clock */
	uint64_t checksum;  /* of the fixed part */
	uint64_t end;       /* of a file: at least the end of its last table */
	uint64_t is_former; /* not 0 once a larger table of the limit is announced */
	/* On lines of their own: written while others read. */
	_Alignas(128) uint64_t evictions;
	_Alignas(128) uint64_t claims; /* claims so far: the number of the next */
	uint8_t rest_of_page[4096 - 256 - sizeof(uint64_t)];
	/* On another page: without the secret no key would be found again. */
	uint8_t fixed_copy[TABLE_FIXED];
	uint64_t checksum_copy;
	uint8_t reserved[4096 - TABLE_FIXED - sizeof(uint64_t)];
};

_Static_assert(sizeof(struct table_header) == 8192, "the cells start on a page");
_Static_assert(offsetof(struct table_header, clock) == TABLE_FIXED, "what is fixed comes first");

struct table {
	struct table_header *header; /* in a file anybody may write to it: only clock and counters
	                                are read */
	struct cell *cells;
	uint64_t sets;
	bool load_is_atomic;
	bool is_wide; /* its states have rows, and may be held; else CELL_ADHOC has that place */
};

/** Bytes that a table of `capacity` keys takes, or 0 when that is out of range. */
size_t table_size(uint64_t capacity);

/** Sets that a table of `capacity` keys, which is in range, has. */
uint64_t table_sets(uint64_t capacity);

/** The checksum of the TABLE_FIXED bytes that a header begins with. */
uint64_t table_checksum(const void *fixed);

/* The purpose of a table. */
struct table_shape {
	uint64_t capacity; /* in range */
	uint64_t identity; /* as in the header, like those below */
	uint32_t record_cells;
	uint64_t size;
	bool stays;
};

/**
 * Makes the header of a new table, in zeroed memory; the cells and rows behind it are zero, too.
 */
void table_format(struct table_header *header, const struct table_shape *shape,
                  const struct hash_key *secret);

/**
 * Takes `memory`, aligned to a page, for a table of so many sets, of states of one word: set
 * `is_wide` where they are wide. Does not look at the header.
 */
void table_attach(struct table *table, void *memory, uint64_t sets);

/** Gets one defect, in words. */
typedef void table_report(void *context, const char *text);

/**
 * Reports the defects of a header that nobody changes meanwhile; only the first header of a
 * store has a clock. Returns their number; of another version nothing else is told.
 */
uint64_t table_check_header(const struct table_header *header, bool has_clock, table_report *report,
                            void *context);

/**
 * Restores the fixed part of a header from its copy, or the copy from it, whichever has kept its
 * checksum, and zeroes the fields without meaning. False, and nothing is changed, when neither
 * has: a secret is not guessed.
 */
bool table_repair_header(struct table_header *header, bool has_clock);

/**
 * Reports cells that no limit can have written, and tags that stand twice in a set; no state
 * reaches further ahead than `horizon_ns`. Cells that others write meanwhile may be reported
 * wrongly. With `repair` such cells are emptied. Returns how many there are.
 */
uint64_t table_check_cells(struct table *table, uint64_t now_ns, uint64_t horizon_ns, bool repair,
                           table_report *report, void *context);

/*
 * The spots where a key can be: its home, and a run of sets that few keys need, so it is not
 * worked out yet.
 */
struct table_position {
	struct cell *home;
	uint64_t hash;
	uint32_t tag;
};

/* A cell and the value seen there. NULL when the key was not found. */
struct observed_cell {
	struct cell *cell;
	struct cell value;
};

static inline uint64_t table_scale(uint64_t hash, uint64_t n)
{
	return (uint64_t)(((u128)hash * n) >> 64);
}

/* The tag is the hash's low half, the home depends on its high end. */
static inline uint32_t table_tag(uint64_t hash)
{
	return (uint32_t)hash ? (uint32_t)hash : 1;
}

static inline struct table_position table_position(const struct table *table, uint64_t hash)
{
	uint64_t home = table_scale(hash, table->sets);

	return (struct table_position){table->cells + home * TABLE_SET_CELLS, hash, table_tag(hash)};
}

/*
 * The run depends on all of the hash: if it followed from the tag, two keys of
 * one tag would always share it.
 */
static inline struct cell *table_run(const struct table *table,
                                     const struct table_position *position)
{
	uint64_t mixed = (position->hash ^ position->hash >> 32) * UINT64_C(0x9e3779b97f4a7c15);

	return table->cells + table_scale(mixed, table->sets - (TABLE_RUN_SETS - 1)) * TABLE_SET_CELLS;
}

/** The spots in the order in which they are filled, from 0 to TABLE_CANDIDATES - 1. */
static inline struct cell *table_cell(const struct table_position *position, struct cell *run,
                                      unsigned i)
{
	return i < TABLE_SET_CELLS ? &position->home[i] : &run[i - TABLE_SET_CELLS];
}

/** Starts fetching the home, which has three keys of four. */
static inline void table_prefetch(const struct table_position *position)
{
	prefetch(position->home);
	prefetch(position->home + TABLE_SET_CELLS / 2);
}

/** Starts fetching sets of the run; its first has most keys that are not at home. */
static inline void table_prefetch_run(const struct table *table,
                                      const struct table_position *position, unsigned from,
                                      unsigned to)
{
	struct cell *run = table_run(table, position);

	for (unsigned i = from * TABLE_SET_CELLS; i < to * TABLE_SET_CELLS; i += TABLE_SET_CELLS / 2)
		prefetch(run + i);
}

/* One bit for each cell of the set that has the tag. */
static inline unsigned table_hits(const struct cell *set, uint32_t tag)
{
	unsigned hits = 0;

#if defined(__SSE2__)
	const __m128i *cells = (const __m128i *)set, wanted = _mm_set1_epi32((int)tag);

	for (int i = 0; i < TABLE_SET_CELLS; i += 4) { /* the second word of each of four cells */
		__m128i ab = _mm_unpacklo_epi32(_mm_load_si128(cells + i), _mm_load_si128(cells + i + 1));
		__m128i cd =
		    _mm_unpacklo_epi32(_mm_load_si128(cells + i + 2), _mm_load_si128(cells + i + 3));
		__m128i equal = _mm_cmpeq_epi32(_mm_unpackhi_epi64(ab, cd), wanted);

		hits |= (unsigned)_mm_movemask_ps(_mm_castsi128_ps(equal)) << i;
	}
#else
	for (int i = 0; i < TABLE_SET_CELLS; i++)
		hits |= (unsigned)(cell_peek_low(&set[i]) >> 32 == tag) << i;
#endif
	return hits;
}

/** The first cell of the set that seems to have the tag, or NULL. Look at it again. */
static inline struct cell *table_find_likely(struct cell *set, uint32_t tag)
{
	unsigned hits = table_hits(set, tag);

	return hits ? &set[__builtin_ctz(hits)] : NULL;
}

static inline bool table_find_in(const struct table *table, struct cell *set, uint32_t tag,
                                 struct observed_cell *observed)
{
	/* Reads the hits again: they may be out of date. */
	for (unsigned hits = table_hits(set, tag); hits != 0; hits &= hits - 1) {
		observed->cell = &set[__builtin_ctz(hits)];
		observed->value = cell_load(observed->cell, table->load_is_atomic);
		if (cell_tag(observed->value) == tag)
			return true;
	}
	return false;
}

static inline struct observed_cell table_find(const struct table *table,
                                              const struct table_position *position)
{
	struct observed_cell observed;
	struct cell *run;

	if (__builtin_expect(table_find_in(table, position->home, position->tag, &observed), 1))
		return observed;
	run = table_run(table, position);
	for (int i = 0; i < TABLE_RUN_SETS; i++)
		if (table_find_in(table, run + i * TABLE_SET_CELLS, position->tag, &observed))
			return observed;
	return (struct observed_cell){NULL, {0, 0}};
}

/*
 * Tells how much a live state is worth: the state of least weight makes room for a new key, and
 * among equals the one that is spent first. Without a judge, only that counts.
 */
struct eviction_policy {
	uint64_t (*weight)(const struct eviction_policy *judge, struct cell *cell, struct cell value);
};

__attribute__((noinline)) bool table_store_slow(struct table *table,
                                                const struct table_position *position,
                                                struct observed_cell observed, struct cell after,
                                                uint64_t now_ns,
                                                const struct eviction_policy *judge);

/**
 * Puts `after` where `slot` was found, or in a position with room when it was not found; `after`
 * carries the key's tag, or is empty to forget the key. False when the key has changed
 * meanwhile: find it again, and decide again. Also false when there is no room: for a cell that
 * was not found, ask table_is_full. `judge` may be NULL.
 */
static inline bool table_store(struct table *table, const struct table_position *position,
                               struct observed_cell observed, struct cell after, uint64_t now_ns,
                               const struct eviction_policy *judge)
{
	if (__builtin_expect(observed.cell != NULL && !cell_is_claim(observed.value), 1))
		return cell_swap(observed.cell, observed.value, after);
	return table_store_slow(table, position, observed, after, now_ns, judge);
}

/**
 * Whether a key without a cell can get none: all its spots are held (cell_is_pinned) or claimed by
 * others.
 */
bool table_is_full(const struct table *table, const struct table_position *position,
                   uint64_t now_ns);

/** Cells that are not spent; beyond 2^16 cells estimated from a sample. */
uint64_t table_live(const struct table *table, uint64_t now_ns);

/** States that made room for others before they were spent. */
uint64_t table_evictions(const struct table *table);

#endif
