/*
 * burst.c: measures the most that a key was granted in any period, by a sliding window: each key
 * has a log of its grants in the last period. A key with too many grants counts them in slots of
 * time instead, which makes its result slightly too high.
 */
#include "simulate/report/burst.h"

#include <stdlib.h>

#include "base/number.h"
#include "base/os/os.h"
#include "base/os/prefetch.h"

#define TABLE_SIZE_MIN 1024 /* entries of the first table of keys */
#define LOG_SIZE_MIN   4    /* entries of the smallest log, the unit of their memory */
#define SIZES          11   /* of logs: powers of two up to BURST_LOG_MAX */

struct entry {
	uint64_t last_ns; /* of the grants that it counts */
	uint64_t granted;
};

/*
 * The time of the newest entry and the sum of all entries are here, so that a grant writes to the
 * log without reading it. A single entry needs no log.
 */
struct key {
	uint64_t hash; /* 0 if free */
	uint64_t
	    granted_sum; /* of the entries, including those that remove_expired has not removed yet */
	uint64_t last_ns;
	uint32_t log_index; /* where the log begins, in units of LOG_SIZE_MIN entries */
	uint32_t first_entry : SIZES - 1, entry_count : SIZES, log2_size : 4, counts_in_slots : 1;
};

/* A log whose key has got a larger one. */
struct free_log {
	uint32_t next; /* 1-based; 0 for the last */
};

struct burst {
	uint64_t period_ns, keys_max;
	struct burst_stats stats;
	struct key *keys; /* open addressing; at most 3/4 are taken */
	size_t mask;
	struct entry *logs;            /* allocated from the beginning on */
	uint32_t units_used, unit_max; /* parts of `logs`, each of LOG_SIZE_MIN entries */
	uint32_t free[SIZES];          /* free lists by log2 of the size, as free_log.next */
};

_Static_assert(sizeof(struct key) == 32, "two keys are a line");
_Static_assert(BURST_LOG_MAX == 1 << (SIZES - 1) && SIZES <= 1 << 4, "a power for each size");

#define UNIT_BYTES (LOG_SIZE_MIN * sizeof(struct entry))

/*
 * The memory for logs: the smallest one for each key, that for larger ones, and one of the largest
 * size, since exceeds_log_budget is asked before a log is allocated.
 */
static uint32_t log_units(uint64_t keys_max)
{
	uint64_t units_per_key = 1 + BURST_BYTES_PER_KEY / UNIT_BYTES;

	/* At most so many keys that the result fits 32 bits. */
	return (uint32_t)(u64_min(keys_max, UINT32_MAX / 4) * units_per_key) +
	       BURST_LOG_MAX / LOG_SIZE_MIN;
}

struct burst *burst_open(uint64_t period_ns, uint64_t keys_max)
{
	struct burst *burst = calloc(1, sizeof *burst);

	if (!burst)
		return NULL;
	*burst = (struct burst){.period_ns = period_ns,
	                        .keys_max = keys_max,
	                        .mask = TABLE_SIZE_MIN - 1,
	                        .unit_max = log_units(keys_max)};
	burst->keys = os_pages_map(TABLE_SIZE_MIN * sizeof *burst->keys);
	burst->logs = os_pages_map(burst->unit_max * UNIT_BYTES);
	if (burst->keys && burst->logs)
		return burst;
	burst_close(burst);
	return NULL;
}

void burst_close(struct burst *burst)
{
	if (!burst)
		return;
	if (burst->keys)
		os_pages_unmap(burst->keys, (burst->mask + 1) * sizeof *burst->keys);
	if (burst->logs)
		os_pages_unmap(burst->logs, burst->unit_max * UNIT_BYTES);
	free(burst);
}

static struct key *find_key(struct key *keys, size_t mask, uint64_t hash)
{
	size_t i = hash & mask;

	while (keys[i].hash != 0 && keys[i].hash != hash)
		i = (i + 1) & mask;
	return &keys[i];
}

static uint32_t log_size(const struct key *key)
{
	return UINT32_C(1) << key->log2_size;
}

static struct entry *log_at(const struct burst *burst, uint32_t log_index)
{
	return &burst->logs[(size_t)log_index * LOG_SIZE_MIN];
}

/* The i-th entry of the key's log, a ring, which it must have. */
static struct entry *entry_at(const struct burst *burst, const struct key *key, uint32_t i)
{
	return log_at(burst, key->log_index) + ((key->first_entry + i) & (log_size(key) - 1));
}

void burst_prefetch(const struct burst *burst, uint64_t hash)
{
	prefetch(&burst->keys[hash & burst->mask]);
}

void burst_prefetch_log(const struct burst *burst, uint64_t hash)
{
	const struct key *key = find_key(burst->keys, burst->mask, hash ? hash : 1);

	if (key->log2_size > 0)
		prefetch(entry_at(burst, key, key->entry_count));
}

/* Returns false without memory: then no more keys are tracked. */
static bool grow_table(struct burst *burst)
{
	size_t mask = 2 * burst->mask + 1;
	struct key *keys = os_pages_map((mask + 1) * sizeof *keys);

	if (!keys)
		return false;
	for (size_t i = 0; i <= burst->mask; i++)
		if (burst->keys[i].hash != 0)
			*find_key(keys, mask, burst->keys[i].hash) = burst->keys[i];
	os_pages_unmap(burst->keys, (burst->mask + 1) * sizeof *keys);
	burst->keys = keys;
	burst->mask = mask;
	return true;
}

static struct key *find_or_add(struct burst *burst, uint64_t hash)
{
	struct key *key = find_key(burst->keys, burst->mask, hash);

	if (key->hash != 0)
		return key;
	if (burst->stats.keys >= burst->keys_max)
		return NULL;
	if (burst->stats.keys >= (burst->mask + 1) / 4 * 3) {
		if (!grow_table(burst))
			return NULL;
		key = find_key(burst->keys, burst->mask, hash);
	}
	burst->stats.keys++;
	key->hash = hash;
	return key;
}

/* Sets *log_index to a free log of this size, or to unused memory. Returns false without memory. */
static bool allocate_log(struct burst *burst, unsigned log2_size, uint32_t *log_index)
{
	uint32_t units = (UINT32_C(1) << log2_size) / LOG_SIZE_MIN;

	if (burst->free[log2_size] != 0) {
		*log_index = burst->free[log2_size] - 1;
		burst->free[log2_size] = ((struct free_log *)log_at(burst, *log_index))->next;
		return true;
	}
	if (burst->unit_max - burst->units_used < units)
		return false;
	*log_index = burst->units_used;
	burst->units_used += units;
	return true;
}

static void free_log(struct burst *burst, const struct key *key)
{
	((struct free_log *)log_at(burst, key->log_index))->next = burst->free[key->log2_size];
	burst->free[key->log2_size] = key->log_index + 1;
}

/* Whether logs together use so much memory that none may grow; a key's first log is allowed. */
static bool exceeds_log_budget(const struct burst *burst)
{
	return burst->units_used * UNIT_BYTES > burst->keys_max * BURST_BYTES_PER_KEY;
}

/* Moves the key's log to one of twice the size. Returns false if there is no memory for it. */
static bool grow_log(struct burst *burst, struct key *key)
{
	bool has_log = key->log2_size > 0;
	unsigned log2_size = has_log ? key->log2_size + 1u : (unsigned)__builtin_ctz(LOG_SIZE_MIN);
	uint32_t log_index;
	struct entry *entries;

	if (log2_size >= SIZES || (has_log && exceeds_log_budget(burst)))
		return false;
	if (!allocate_log(burst, log2_size, &log_index))
		return false;
	entries = log_at(burst, log_index);
	if (has_log) {
		for (uint32_t i = 0; i < key->entry_count; i++)
			entries[i] = *entry_at(burst, key, i);
		free_log(burst, key);
	} else { /* the only entry was in `key` */
		entries[0] = (struct entry){key->last_ns, key->granted_sum};
	}
	key->log_index = log_index;
	key->log2_size = log2_size & 15;
	key->first_entry = 0;
	return true;
}

/* Returns the slot of a time. A period has at most as many slots as the log has entries. */
static uint64_t burst_slot(const struct burst *burst, const struct key *key, uint64_t time_ns)
{
	return time_ns / (burst->period_ns / (log_size(key) > 2 ? log_size(key) - 2 : 1) + 1);
}

/* Whether a grant at this time belongs to the newest entry: the same time, or the same slot. */
static bool is_in_newest_entry(const struct burst *burst, const struct key *key, uint64_t now_ns)
{
	return key->entry_count > 0 && (key->last_ns == now_ns ||
	                                (key->counts_in_slots && burst_slot(burst, key, key->last_ns) ==
	                                                             burst_slot(burst, key, now_ns)));
}

/* Counts a grant in a new entry, or in the newest one if it belongs there or the log is full. */
static void add_to_log(struct burst *burst, struct key *key, uint64_t now_ns, uint64_t granted)
{
	bool joins_newest = key->entry_count == log_size(key) || is_in_newest_entry(burst, key, now_ns);

	key->last_ns = now_ns;
	key->entry_count += !joins_newest;
	if (key->log2_size > 0) {
		struct entry *last = entry_at(burst, key, key->entry_count - 1u);

		*last = (struct entry){now_ns, joins_newest ? last->granted + granted : granted};
	}
}

/* Appends all entries anew, so that those in one slot become one entry. */
static void convert_to_slots(struct burst *burst, struct key *key)
{
	uint32_t entry_count = key->entry_count;

	burst->stats.estimated++;
	key->counts_in_slots = true;
	if (key->log2_size == 0)
		return;
	key->entry_count = 0;
	for (uint32_t i = 0; i < entry_count; i++) {
		struct entry entry = *entry_at(burst, key, i);

		add_to_log(burst, key, entry.last_ns, entry.granted);
	}
}

/* Removes the entries that are a period old. */
static void remove_expired(struct burst *burst, struct key *key, uint64_t now_ns)
{
	if (now_ns - key->last_ns >= burst->period_ns) {
		key->granted_sum = 0;
		key->entry_count = 0;
	}
	/* Stops at the newest entry, which may exist only in `key`. */
	while (key->entry_count > 1 && now_ns - entry_at(burst, key, 0)->last_ns >= burst->period_ns) {
		key->granted_sum -= entry_at(burst, key, 0)->granted;
		key->first_entry = (key->first_entry + 1) & (log_size(key) - 1);
		key->entry_count--;
	}
}

/* Makes space in a full log for an entry at this time, or has the key count in slots. */
static void make_space(struct burst *burst, struct key *key, uint64_t at_ns)
{
	bool needs_entry = !is_in_newest_entry(burst, key, at_ns);

	if (needs_entry && !grow_log(burst, key) && !key->counts_in_slots)
		convert_to_slots(burst, key);
}

/*
 * Adds what was granted to the key at `at_ns`, and returns how much that is in the period that ends
 * there. A result up to `least_reported` may be too high, because that saves removing old entries.
 */
uint64_t burst_add(struct burst *burst, uint64_t hash, uint64_t at_ns, uint64_t granted,
                   uint64_t least_reported)
{
	struct key *key = find_or_add(burst, hash ? hash : 1);

	if (!key) {
		burst->stats.untracked++;
		return 0;
	}
	if (granted == 0)
		return 0;
	at_ns = u64_max(at_ns, key->last_ns);
	if (key->entry_count == log_size(key) || sat_add(key->granted_sum, granted) > least_reported)
		remove_expired(burst, key, at_ns);
	if (key->entry_count == log_size(key))
		make_space(burst, key, at_ns);
	add_to_log(burst, key, at_ns, granted);
	key->granted_sum += granted;
	return key->granted_sum;
}

struct burst_stats burst_stats(const struct burst *burst)
{
	return burst->stats;
}
