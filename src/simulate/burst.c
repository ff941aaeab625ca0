#include "simulate/burst.h"

#include <stdlib.h>

#include "base/arena.h"
#include "base/number.h"
#include "base/os.h"

#define SLOTS_FIRST 1024
#define ROOM_FIRST  4  /* of a log; one entry needs none */
#define ROOMS       11 /* powers of two up to BURST_LOG_MAX */

struct entry {
	uint64_t last_ns; /* of what it counts */
	uint64_t granted;
};

struct key {
	uint64_t hash; /* 0: free */
	uint64_t sum;  /* of the entries */
	uint16_t first, count;
	uint16_t room; /* a power of two */
	bool in_slots;
	union {
		struct entry one; /* where room is 1 */
		struct entry *log;
	};
};

/* A log that its key has outgrown, by the power of its room. */
struct free_log {
	struct free_log *next;
};

struct burst {
	uint64_t period_ns, keys_max;
	struct burst_stats stats;
	struct key *keys; /* open addressing; at most 3/4 are taken */
	size_t mask;
	struct arena arena; /* of the logs */
	struct free_log *free[ROOMS];
};

_Static_assert(BURST_LOG_MAX == 1 << (ROOMS - 1), "a list for each room");

struct burst *burst_open(uint64_t period_ns, uint64_t keys_max)
{
	struct burst *burst = calloc(1, sizeof *burst);

	if (!burst)
		return NULL;
	*burst = (struct burst){.period_ns = period_ns, .keys_max = keys_max, .mask = SLOTS_FIRST - 1};
	burst->keys = os_pages_map(SLOTS_FIRST * sizeof *burst->keys);
	if (burst->keys)
		return burst;
	free(burst);
	return NULL;
}

void burst_close(struct burst *burst)
{
	if (!burst)
		return;
	arena_free(&burst->arena);
	os_pages_unmap(burst->keys, (burst->mask + 1) * sizeof *burst->keys);
	free(burst);
}

static struct key *find(struct key *keys, size_t mask, uint64_t hash)
{
	size_t i = hash & mask;

	while (keys[i].hash != 0 && keys[i].hash != hash)
		i = (i + 1) & mask;
	return &keys[i];
}

void burst_prefetch(const struct burst *burst, uint64_t hash)
{
	const struct key *key = &burst->keys[hash & burst->mask];

	__builtin_prefetch(key, 1);
	__builtin_prefetch((const char *)(key + 1) - 1, 1);
}

void burst_prefetch_log(const struct burst *burst, uint64_t hash)
{
	const struct key *key = find(burst->keys, burst->mask, hash ? hash : 1);

	if (key->room <= 1)
		return;
	__builtin_prefetch(&key->log[key->first], 1);
	__builtin_prefetch(&key->log[(key->first + key->count) & (key->room - 1)], 1);
}

/* Without memory, the keys there are are all that are tracked. */
static bool grow_table(struct burst *burst)
{
	size_t mask = 2 * burst->mask + 1;
	struct key *keys = os_pages_map((mask + 1) * sizeof *keys);

	if (!keys)
		return false;
	for (size_t i = 0; i <= burst->mask; i++)
		if (burst->keys[i].hash != 0)
			*find(keys, mask, burst->keys[i].hash) = burst->keys[i];
	os_pages_unmap(burst->keys, (burst->mask + 1) * sizeof *keys);
	burst->keys = keys;
	burst->mask = mask;
	return true;
}

static struct key *take(struct burst *burst, uint64_t hash)
{
	struct key *key = find(burst->keys, burst->mask, hash);

	if (key->hash != 0)
		return key;
	if (burst->stats.keys >= burst->keys_max)
		return NULL;
	if (burst->stats.keys >= (burst->mask + 1) / 4 * 3) {
		if (!grow_table(burst))
			return NULL;
		key = find(burst->keys, burst->mask, hash);
	}
	burst->stats.keys++;
	*key = (struct key){.hash = hash, .room = 1};
	return key;
}

static struct entry *log_of(struct key *key)
{
	return key->room > 1 ? key->log : &key->one;
}

static struct entry *entry_at(struct key *key, size_t i)
{
	return &log_of(key)[(key->first + i) & (key->room - 1)];
}

static struct free_log **free_logs(struct burst *burst, uint16_t room)
{
	return &burst->free[__builtin_ctz(room)];
}

static struct entry *take_log(struct burst *burst, uint16_t room)
{
	struct free_log **list = free_logs(burst, room), *log = *list;

	if (!log)
		return arena_array(&burst->arena, room, sizeof(struct entry));
	*list = log->next;
	return (struct entry *)log;
}

static void give_log(struct burst *burst, struct key *key)
{
	struct free_log **list = free_logs(burst, key->room), *log = (struct free_log *)key->log;

	log->next = *list;
	*list = log;
}

/* Twice the room, while there is memory for it. */
static bool grow_log(struct burst *burst, struct key *key)
{
	uint16_t room = key->room > 1 ? 2 * key->room : ROOM_FIRST;
	struct entry *log;

	if (room > BURST_LOG_MAX ||
	    (room > ROOM_FIRST && burst->arena.used > burst->keys_max * BURST_BYTES_PER_KEY))
		return false;
	log = take_log(burst, room);
	if (!log)
		return false;
	for (size_t i = 0; i < key->count; i++)
		log[i] = *entry_at(key, i);
	if (key->room > 1)
		give_log(burst, key);
	key->log = log;
	key->room = room;
	key->first = 0;
	return true;
}

/* So wide that a period never touches more of them than there is room for. */
static uint64_t slot_of(const struct burst *burst, const struct key *key, uint64_t time_ns)
{
	return time_ns / (burst->period_ns / (key->room > 2 ? key->room - 2u : 1u) + 1);
}

static bool joins(const struct burst *burst, const struct key *key, const struct entry *last,
                  uint64_t now_ns)
{
	return last->last_ns == now_ns ||
	       (key->in_slots && slot_of(burst, key, last->last_ns) == slot_of(burst, key, now_ns));
}

static void append(struct burst *burst, struct key *key, uint64_t now_ns, uint64_t granted)
{
	struct entry *last = key->count > 0 ? entry_at(key, key->count - 1u) : NULL;

	if (last && joins(burst, key, last, now_ns)) {
		last->last_ns = now_ns;
		last->granted += granted;
	} else {
		*entry_at(key, key->count++) = (struct entry){now_ns, granted};
	}
}

static void go_to_slots(struct burst *burst, struct key *key)
{
	size_t count = key->count;

	key->in_slots = true;
	key->count = 0;
	for (size_t i = 0; i < count; i++) {
		struct entry entry = *entry_at(key, i);

		append(burst, key, entry.last_ns, entry.granted);
	}
	burst->stats.estimated++;
}

uint64_t burst_add(struct burst *burst, uint64_t hash, uint64_t at_ns, uint64_t granted)
{
	struct key *key = take(burst, hash ? hash : 1);

	if (!key) {
		burst->stats.untracked++;
		return 0;
	}
	if (granted == 0)
		return 0;
	if (key->count > 0)
		at_ns = u64_max(at_ns, entry_at(key, key->count - 1u)->last_ns);
	while (key->count > 0 && at_ns - entry_at(key, 0)->last_ns >= burst->period_ns) {
		key->sum -= entry_at(key, 0)->granted;
		key->first = (key->first + 1) & (key->room - 1);
		key->count--;
	}
	if (key->count == key->room && !joins(burst, key, entry_at(key, key->count - 1u), at_ns) &&
	    !grow_log(burst, key) && !key->in_slots)
		go_to_slots(burst, key);
	append(burst, key, at_ns, granted);
	key->sum += granted;
	return key->sum;
}

struct burst_stats burst_stats(const struct burst *burst)
{
	return burst->stats;
}
