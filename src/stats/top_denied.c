/*
 * top_denied.c: counts the pairs of limit and key that are denied most, by Space-Saving (Metwally,
 * Agrawal and El Abbadi, "Efficient computation of frequent and top-k elements in data streams",
 * 2005).
 *
 * A pair that has a counter adds to it. Another pair takes over the smallest counter with its
 * count, by which it may then be too high: its error. Counters start at zero without a pair, so
 * a newcomer always takes one over. The counts add up to the W denials, hence the smallest of m
 * counters is at most W/m. A pair without a counter was denied no more often than that. Halving all
 * counts at once changes neither their order nor these bounds, but for rounding: 1/2 + 1/4 + ...,
 * less than one denial.
 *
 * Each event loop of the server has such counters of its own. A position that goes round the
 * counters finds the smallest: any that has the least count. Only when none has it any more, the
 * least count is computed again. In a flood of newcomers most counters have it.
 *
 * Merging: if a loop has no counter of a pair, its smallest count stands for it. So a pair's sum
 * begins with the smallest counts of all loops (the floor), and each counter of the pair adds by
 * how much it is above its loop's smallest. Errors are added up in the same way, so one may be
 * negative before the floor is added.
 */
#include "stats/top_denied.h"

#include <pthread.h>
#include <stdalign.h>
#include <stdlib.h>

#include <weir/weir.h>

#include "base/number.h"

#define CHAINS       (2 * TOP_COUNTERS) /* a power of two */
#define HALF_LIFE_NS (60 * NS_PER_S)
#define HALVINGS_MAX 31 /* the widest shift; it leaves 1 at most */

struct name {
	const char *limit; /* NULL until a pair has the counter */
	uint16_t key_len;  /* length of the whole key; TOP_KEY_MAX bytes are kept here */
	char key[TOP_KEY_MAX];
};

/* The counters of one event loop, an array for each field: a search touches few cache lines. */
struct loop {
	alignas(64) pthread_mutex_t mutex;
	uint64_t half_lives;  /* up to which the counts have been halved */
	uint32_t least_count; /* no count is smaller */
	uint16_t position;    /* where the search for the smallest goes on */
	uint32_t denied[TOP_COUNTERS];
	uint32_t errors[TOP_COUNTERS];
	uint64_t hashes[TOP_COUNTERS];
	uint16_t next[TOP_COUNTERS]; /* the next in its chain: a counter + 1, or 0 */
	uint16_t chains[CHAINS];     /* heads of the chains, by hash, likewise */
	struct name names[TOP_COUNTERS];
};

struct top {
	size_t loop_count;
	struct loop *loops;
};

struct top *top_open(size_t loops)
{
	struct top *top = malloc(sizeof *top);

	if (!top)
		return NULL;
	top->loop_count = loops;
	top->loops = aligned_alloc(64, loops * sizeof *top->loops);
	if (!top->loops) {
		free(top);
		return NULL;
	}
	memset(top->loops, 0, loops * sizeof *top->loops);
	for (size_t i = 0; i < loops; i++)
		pthread_mutex_init(&top->loops[i].mutex, NULL);
	return top;
}

void top_close(struct top *top)
{
	if (!top)
		return;
	for (size_t i = 0; i < top->loop_count; i++)
		pthread_mutex_destroy(&top->loops[i].mutex);
	free(top->loops);
	free(top);
}

/* Halves all counts for each half-life that is over. */
static void fade_counts(struct loop *loop, uint64_t now_ns)
{
	uint64_t half_lives = now_ns / HALF_LIFE_NS;
	uint64_t halvings = sat_sub(half_lives, loop->half_lives);
	unsigned shift = (unsigned)u64_min(halvings, HALVINGS_MAX);

	if (halvings == 0)
		return;
	loop->half_lives = half_lives;
	loop->least_count >>= shift;
	for (size_t i = 0; i < TOP_COUNTERS; i++) {
		loop->denied[i] >>= shift;
		loop->errors[i] >>= shift;
	}
}

static uint32_t compute_least_count(const struct loop *loop)
{
	uint32_t least = UINT32_MAX;

	for (size_t i = 0; i < TOP_COUNTERS; i++)
		least = loop->denied[i] < least ? loop->denied[i] : least;
	return least;
}

/* Returns a counter with the least count. */
static uint16_t smallest_counter(struct loop *loop)
{
	for (;;) {
		for (size_t i = 0; i < TOP_COUNTERS; i++) {
			if (loop->denied[loop->position] == loop->least_count)
				return loop->position;
			loop->position = (loop->position + 1) % TOP_COUNTERS;
		}
		loop->least_count = compute_least_count(loop);
	}
}

static uint16_t *chain_of(struct loop *loop, uint64_t hash)
{
	return &loop->chains[hash & (CHAINS - 1)];
}

/* Takes over the smallest counter for this pair: moves it to the chain of the pair's hash. */
static uint16_t take_over(struct loop *loop, uint64_t hash, const char *limit, struct slice key)
{
	uint16_t counter = smallest_counter(loop), *link;
	struct name *name = &loop->names[counter];

	if (name->limit) {
		for (link = chain_of(loop, loop->hashes[counter]); *link != counter + 1;)
			link = &loop->next[*link - 1];
		*link = loop->next[counter];
	}
	link = chain_of(loop, hash);
	loop->next[counter] = *link;
	*link = counter + 1;
	loop->hashes[counter] = hash;
	loop->errors[counter] = loop->denied[counter];
	name->limit = limit;
	name->key_len = (uint16_t)u64_min(key.len, UINT16_MAX);
	memset(name->key, 0, TOP_KEY_MAX);
	if (key.len > 0)
		memcpy(name->key, key.data, u64_min(key.len, TOP_KEY_MAX));
	return counter;
}

/* Returns the counter of the pair, or TOP_COUNTERS. */
static uint16_t find_counter(struct loop *loop, uint64_t hash)
{
	/* Chains have the numbers of counters plus 1. */
	for (uint16_t link = *chain_of(loop, hash); link; link = loop->next[link - 1])
		if (loop->hashes[link - 1] == hash)
			return link - 1;
	return TOP_COUNTERS;
}

/* Returns the counter of the pair, or the smallest, which it takes over. */
static uint16_t find_or_take_over(struct loop *loop, uint64_t hash, const char *limit,
                                  struct slice key)
{
	uint16_t counter = find_counter(loop, hash);

	return counter < TOP_COUNTERS ? counter : take_over(loop, hash, limit, key);
}

bool top_count_known(struct top *top, size_t index, uint64_t hash, uint64_t now_ns)
{
	struct loop *loop = &top->loops[index];
	uint16_t counter;

	pthread_mutex_lock(&loop->mutex);
	fade_counts(loop, now_ns);
	counter = find_counter(loop, hash);
	if (counter < TOP_COUNTERS)
		loop->denied[counter]++;
	pthread_mutex_unlock(&loop->mutex);
	return counter < TOP_COUNTERS;
}

void top_count_denial(struct top *top, size_t index, uint64_t hash, const char *limit,
                      struct slice key, uint64_t now_ns)
{
	struct loop *loop = &top->loops[index];

	pthread_mutex_lock(&loop->mutex);
	fade_counts(loop, now_ns);
	loop->denied[find_or_take_over(loop, hash, limit, key)]++;
	pthread_mutex_unlock(&loop->mutex);
}

static bool is_pair(const struct name *name, const char *limit, struct slice key)
{
	return name->limit && key.len <= TOP_KEY_MAX && name->key_len == key.len &&
	       memcmp(name->key, key.data, key.len) == 0 && strcmp(name->limit, limit) == 0;
}

bool top_find(struct top *top, const char *limit, struct slice key, uint64_t *hash)
{
	bool found = false;

	for (size_t i = 0; i < top->loop_count && !found; i++) {
		struct loop *loop = &top->loops[i];

		pthread_mutex_lock(&loop->mutex);
		for (size_t j = 0; j < TOP_COUNTERS && !found; j++)
			if (is_pair(&loop->names[j], limit, key)) {
				*hash = loop->hashes[j];
				found = true;
			}
		pthread_mutex_unlock(&loop->mutex);
	}
	return found;
}

/* A pair and its counts, as copied from the counters. */
struct entry {
	uint64_t hash;
	int64_t denied, error;
	struct name name;
};

/*
 * Copies the counters in use, less the smallest count, which it adds to *floor: see "Merging"
 * above. Returns their number.
 */
static size_t copy_loop(struct loop *loop, uint64_t now_ns, struct entry *out, int64_t *floor)
{
	int64_t least;
	size_t n = 0;

	pthread_mutex_lock(&loop->mutex);
	fade_counts(loop, now_ns);
	least = compute_least_count(loop);
	for (size_t i = 0; i < TOP_COUNTERS; i++)
		if (loop->denied[i] > 0)
			out[n++] = (struct entry){loop->hashes[i], loop->denied[i] - least,
			                          loop->errors[i] - least, loop->names[i]};
	pthread_mutex_unlock(&loop->mutex);
	*floor += least;
	return n;
}

static int by_hash(const void *left, const void *right)
{
	const struct entry *a = left, *b = right;

	return (a->hash > b->hash) - (a->hash < b->hash);
}

/* The most denied first. Equal counts go by name: hashes are keyed, so their order is another one
 * each time. */
static int by_denied(const void *left, const void *right)
{
	const struct entry *a = left, *b = right;
	int order = (a->denied < b->denied) - (a->denied > b->denied);

	return order ? order : memcmp(a->name.key, b->name.key, TOP_KEY_MAX);
}

/* Adds up the entries of each hash in one. Returns how many remain. */
static size_t merge_entries(struct entry *entries, size_t n)
{
	size_t kept = 0;

	qsort(entries, n, sizeof *entries, by_hash);
	for (size_t i = 0; i < n; i++) {
		if (kept > 0 && entries[kept - 1].hash == entries[i].hash) {
			entries[kept - 1].denied += entries[i].denied;
			entries[kept - 1].error += entries[i].error;
		} else {
			entries[kept++] = entries[i];
		}
	}
	return kept;
}

/* Makes the entry to show; `floor` is the sum of the smallest counts that copy_loop subtracted. */
static struct top_entry entry_shown(const struct entry *entry, int64_t floor, struct arena *arena)
{
	const struct name *name = &entry->name;
	size_t len = u64_min(name->key_len, TOP_KEY_MAX);

	return (struct top_entry){
	    .hash = entry->hash,
	    .limit = name->limit,
	    .key = {arena_copy(arena, (struct slice){name->key, len}), len},
	    .cut = name->key_len > TOP_KEY_MAX,
	    .denied = (uint64_t)(entry->denied + floor),
	    .excess_max = (uint64_t)(entry->error + floor),
	};
}

/* Returns the *n most denied pairs of all loops, or NULL without memory. Sets *n if there are
 * fewer. */
struct top_entry *top_list(struct top *top, size_t *n, uint64_t now_ns, struct arena *arena)
{
	struct entry *entries = arena_array(arena, top->loop_count * TOP_COUNTERS, sizeof *entries);
	struct top_entry *shown;
	size_t count = 0;
	int64_t floor = 0;

	if (!entries)
		return NULL;
	for (size_t i = 0; i < top->loop_count; i++)
		count += copy_loop(&top->loops[i], now_ns, entries + count, &floor);
	count = merge_entries(entries, count);
	qsort(entries, count, sizeof *entries, by_denied);
	*n = u64_min(*n, count);
	shown = arena_array(arena, *n, sizeof *shown);
	for (size_t i = 0; shown && i < *n; i++) {
		shown[i] = entry_shown(&entries[i], floor, arena);
		if (!shown[i].key.data)
			return NULL;
	}
	return shown;
}

/*
 * Writes the list as JSON, and where each entry ends, so that top_first can cut it after the first
 * `n`.
 */
int top_render(struct top *top, uint64_t now_ns, struct arena *arena, struct buffer *out,
               struct top_ends *ends)
{
	const struct top_entry *entries;

	ends->count = TOP_SHOWN_MAX;
	entries = top_list(top, &ends->count, now_ns, arena);
	if (!entries)
		return WEIR_ENOMEM;
	buffer_add(out, "[", 1);
	ends->at[0] = out->len;
	for (size_t i = 0; i < ends->count; i++) {
		buffer_add_text(out, i > 0 ? ",{\"limit\":\"" : "{\"limit\":\"");
		buffer_add_json(out, slice_of(entries[i].limit));
		buffer_add_text(out, "\",\"key\":\"");
		buffer_add_json(out, entries[i].key);
		buffer_printf(out, "%s\",\"denied\":%llu,\"error\":%llu}", entries[i].cut ? "…" : "",
		              (unsigned long long)entries[i].denied,
		              (unsigned long long)entries[i].excess_max);
		ends->at[i + 1] = out->len;
	}
	buffer_add(out, "]", 1);
	return WEIR_OK;
}

/* Returns the first `n` entries of a rendered list; its data is NULL if there is no memory. */
struct slice top_first(struct slice text, const struct top_ends *ends, size_t n,
                       struct arena *arena)
{
	char *copy;

	if (n >= ends->count)
		return text;
	text.len = ends->at[n] + 1;
	copy = arena_copy(arena, text);
	if (copy)
		copy[text.len - 1] = ']';
	text.data = copy;
	return text;
}
