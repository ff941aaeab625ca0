/*
 * table.h: implements the key table, a hash table of fixed size that maps each key to a cell of 16
 * bytes without locks. It has no pointers, so that processes can share it in a mapped file.
 *
 * A key's hash gives a tag of 32 bits, a home set of eight cells, and a run of five sets elsewhere
 * for keys whose home is full. These 48 cells are the key's candidate cells. A new key gets the
 * first one that is empty or expired. Two threads that insert the same key at once end with one
 * cell; docs/design/key-table.md has the proof. In short:
 *
 *   - A thread that finds no cell with its tag claims one (a claim is a cell without a state), then
 *     reads all candidate cells again.
 *   - A claim becomes a state only by a compare-and-swap of a thread that has found no other cell
 * of that tag since the claim was made. Other claims are removed first; of two claims the one at
 *     the higher address gives way.
 *   - Every claim differs from every other, so none is mistaken for an earlier one.
 *
 * All functions may be called from any thread, and from any process that maps the same table.
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

/* Bytes of the part of a header that never changes, from `magic` to `size`. */
#define TABLE_FIXED 80

/* The first bytes of a table's memory, drawn in docs/design/key-table.md. */
struct table_header {
	char magic[8];       /* "WEIRTBL\0" */
	uint32_t byte_order; /* 0x01020304 as written */
	uint32_t version;
	uint32_t header_size, cell_size;
	uint16_t set_cells;
	uint16_t is_draining; /* not 0: its keys remain while they live, new ones go elsewhere */
	uint32_t record_cells;   /* cells of the record behind each cell; 0 if states are one word */
	uint64_t capacity, sets;
	struct hash_key secret; /* of the hash */
	uint64_t identity;      /* of the limit with these states; 0 for all limits of one word */
	uint64_t size;          /* bytes, records included */
	struct cell clock;      /* of a file: the id of the system's boot, wall minus monotonic clock */
	uint64_t recorded_ns;   /* of a file: a recent reading of that clock */
	uint64_t checksum;      /* of the fixed part */
	uint64_t end;           /* of a file: its last table ends here, or further on */
	uint64_t is_former;     /* not 0 once a larger table of the limit is announced */
	/* On lines of their own: written while others read. */
	_Alignas(128) uint64_t evictions;
	_Alignas(128) uint64_t claims; /* claims so far: the number of the next */
	uint8_t rest_of_page[4096 - 256 - sizeof(uint64_t)];
	/* On another page, because without the secret no key would be found again. */
	uint8_t fixed_copy[TABLE_FIXED];
	uint64_t checksum_copy;
	uint8_t reserved[4096 - TABLE_FIXED - sizeof(uint64_t)];
};

_Static_assert(sizeof(struct table_header) == 8192, "the cells start on a page");
_Static_assert(offsetof(struct table_header, clock) == TABLE_FIXED, "the fixed part comes first");

/* A process's view of a table. */
struct table {
	/* In a file other processes may write to the header, so only clock and counters are read. */
	struct table_header *header;
	struct cell *cells;
	uint64_t sets;
	bool load_is_atomic; /* see cell_load */
	bool is_wide;        /* states have records, and CELL_PINNED; otherwise that value is CELL_ADHOC */
};

/** Returns how many bytes a table of `capacity` keys takes, or 0 if that is out of range. */
size_t table_size(uint64_t capacity);

/** Returns how many sets a table of `capacity` keys, which is in range, has. */
uint64_t table_sets(uint64_t capacity);

/** The checksum of the first TABLE_FIXED bytes of a header. */
uint64_t table_checksum(const void *fixed);

/* Fields of a new header, by the same names. */
struct table_shape {
	uint64_t capacity; /* in range */
	uint64_t identity;
	uint32_t record_cells;
	uint64_t size;
	bool is_draining;
};

/** Makes the header of a new table. The memory of header, cells and records is zeroed before. */
void table_format(struct table_header *header, const struct table_shape *shape,
                  const struct hash_key *secret);

/**
 * Initializes *table from `memory`, which is aligned to a page, with so many sets. Does not read
 * the header. The caller sets `is_wide` if the states have records.
 */
void table_attach(struct table *table, void *memory, uint64_t sets);

/** Receives the text of one defect. */
typedef void table_report(void *context, const char *text);

/**
 * Reports the defects of a header that no other thread changes meanwhile, and returns their number.
 * Only the first header of a store has a clock. If the version is another one, that is the only
 * defect reported.
 */
uint64_t table_check_header(const struct table_header *header, bool has_clock, table_report *report,
                            void *context);

/**
 * Restores the fixed part of a header from its copy, or the copy from it, by the one whose checksum
 * is right, and zeroes the reserved fields. Returns false and changes nothing if neither checksum
 * is right, because the secret can't be guessed.
 */
bool table_repair_header(struct table_header *header, bool has_clock);

/**
 * Reports cells that no limit can have written, such as cells that expire more than `horizon_ns`
 * from now, and tags that stand twice in a set. Returns how many there are. With `repair` these
 * cells are emptied. A cell that another thread writes meanwhile may be reported wrongly.
 */
uint64_t table_check_cells(struct table *table, uint64_t now_ns, uint64_t horizon_ns, bool repair,
                           table_report *report, void *context);

/*
 * The position of a key, from which its candidate cells follow: the home set and the run. The run
 * is computed when it is needed, since three keys of four are in their home.
 */
struct table_position {
	struct cell *home;
	uint64_t hash;
	uint32_t tag;
};

/* A cell and the value that was read from it. `cell` is NULL if the key was not found. */
struct observed_cell {
	struct cell *cell;
	struct cell value;
};

static inline uint64_t table_scale(uint64_t hash, uint64_t n)
{
	return (uint64_t)(((u128)hash * n) >> 64);
}

/* The tag is the low half of the hash, while the home depends on its highest bits. */
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
 * The first cell of the key's run. It depends on all bits of the hash: if it followed from the tag,
 * two keys of one tag would always share it.
 */
static inline struct cell *table_run(const struct table *table,
                                     const struct table_position *position)
{
	uint64_t mixed = (position->hash ^ position->hash >> 32) * UINT64_C(0x9e3779b97f4a7c15);

	return table->cells + table_scale(mixed, table->sets - (TABLE_RUN_SETS - 1)) * TABLE_SET_CELLS;
}

/** A key's candidate cell `i`, in the order in which they are filled, below TABLE_CANDIDATES. */
static inline struct cell *table_cell(const struct table_position *position, struct cell *run,
                                      unsigned i)
{
	return i < TABLE_SET_CELLS ? &position->home[i] : &run[i - TABLE_SET_CELLS];
}

/** Prefetches the home set, which has three keys of four. */
static inline void table_prefetch(const struct table_position *position)
{
	prefetch(position->home);
	prefetch(position->home + TABLE_SET_CELLS / 2);
}

/** Prefetches the run's sets from `from` to before `to`. Most keys outside the home are in set 0.
 */
static inline void table_prefetch_run(const struct table *table,
                                      const struct table_position *position, unsigned from,
                                      unsigned to)
{
	struct cell *run = table_run(table, position);

	for (unsigned i = from * TABLE_SET_CELLS; i < to * TABLE_SET_CELLS; i += TABLE_SET_CELLS / 2)
		prefetch(run + i);
}

/* Returns a bit for each cell of the set that has the tag. */
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

/**
 * The first cell of the set whose tag matches in a relaxed read, or NULL. The caller must read the
 * cell again before it relies on that.
 */
static inline struct cell *table_find_likely(struct cell *set, uint32_t tag)
{
	unsigned hits = table_hits(set, tag);

	return hits ? &set[__builtin_ctz(hits)] : NULL;
}

static inline bool table_find_in(const struct table *table, struct cell *set, uint32_t tag,
                                 struct observed_cell *observed)
{
	/* A hit comes from a relaxed read and may be out of date, so the cell is read again. */
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
 * Chooses which live state a new key evicts: the one of least weight, and among equals the one that
 * expires first. Without a policy, only the expiry counts.
 */
struct eviction_policy {
	uint64_t (*weight)(const struct eviction_policy *policy, struct cell *cell, struct cell value);
};

__attribute__((noinline)) bool table_store_slow(struct table *table,
                                                const struct table_position *position,
                                                struct observed_cell observed, struct cell after,
                                                uint64_t now_ns,
                                                const struct eviction_policy *policy);

/**
 * Stores `after` in the cell that was observed, or inserts it if the key was not found. `after` has
 * the key's tag, or is empty to remove the key. Returns false if the key has changed meanwhile:
 * then find it and decide again. Also returns false if there is no cell for a new key
 * (table_is_full). `policy` may be NULL.
 */
static inline bool table_store(struct table *table, const struct table_position *position,
                               struct observed_cell observed, struct cell after, uint64_t now_ns,
                               const struct eviction_policy *policy)
{
	if (__builtin_expect(observed.cell != NULL && !cell_is_claim(observed.value), 1))
		return cell_swap(observed.cell, observed.value, after);
	return table_store_slow(table, position, observed, after, now_ns, policy);
}

/**
 * Whether a key without a cell can't get one: all its candidate cells are pinned, or claimed by
 * other keys, and one at least is pinned.
 */
bool table_is_full(const struct table *table, const struct table_position *position,
                   uint64_t now_ns);

/** Counts the cells with a live state; beyond 2^16 cells this is an estimate from a sample. */
uint64_t table_live(const struct table *table, uint64_t now_ns);

/** How many live states each one that table_live finds in its sample stands for; 1: it is exact. */
uint64_t table_sample_weight(const struct table *table);

/** How many states were evicted before they expired. */
uint64_t table_evictions(const struct table *table);

#endif
