#include "store/memory.h"

#include <string.h>

#include "base/error.h"
#include "base/os.h"
#include "store/file.h"

#define CAPACITY_DEFAULT 1000000

static int choose_secret(const struct weir_table_options *options, struct hash_key *secret,
                         struct weir_error *error)
{
	if (options->secret)
		memcpy(secret, options->secret, sizeof *secret);
	else if (os_random(secret, sizeof *secret) != WEIR_OK)
		return error_set(error, WEIR_EIO, "the system gives no random bytes");
	return WEIR_OK;
}

static int map_pages(struct file_map *map, uint64_t capacity, const struct hash_key *secret,
                     struct weir_error *error)
{
	map->size = table_size(capacity);
	map->memory = os_pages_map(map->size);
	if (!map->memory)
		return error_set(error, WEIR_ENOMEM, "capacity: no memory for %llu keys (%zu bytes)",
		                 (unsigned long long)capacity, map->size);
	table_format(map->memory, capacity, secret);
	return WEIR_OK;
}

static int map_file(struct file_map *map, const char *path, uint64_t capacity,
                    const struct hash_key *secret, struct weir_error *error)
{
	int status = file_map(path, FILE_SHARED, map, error);

	if (status != WEIR_ENOTFOUND)
		return status;
	status = file_create(path, capacity, secret, error);
	return status == WEIR_OK ? file_map(path, FILE_SHARED, map, error) : status;
}

/* What was asked for is what there is. */
static int check_file(const struct table_header *header, const struct weir_table_options *options,
                      struct weir_error *error)
{
	if (options->capacity && options->capacity != header->capacity)
		return error_set(error, WEIR_EINVAL, "%.120s: capacity: expected %llu, found %llu",
		                 options->path, (unsigned long long)options->capacity,
		                 (unsigned long long)header->capacity);
	if (options->secret && memcmp(options->secret, &header->secret, sizeof header->secret) != 0)
		return error_set(error, WEIR_EINVAL,
		                 "%.120s: secret: expected the one given, found another", options->path);
	return WEIR_OK;
}

static int attach(struct table *table, const struct file_map *map,
                  const struct weir_table_options *options, struct weir_error *error)
{
	struct weir_error inner;
	int status = table_attach(table, map->memory, map->size, &inner);

	if (status != WEIR_OK)
		return error_set(error, status, "%.120s: %s", options->path ? options->path : "table",
		                 inner.message);
	return options->path ? check_file(table->header, options, error) : WEIR_OK;
}

/* The latest time that is known of: nobody may bring it back. */
static void see(struct table_header *header, uint64_t now_ns)
{
	uint64_t seen = __atomic_load_n(&header->seen_ns, __ATOMIC_RELAXED);

	while (seen < now_ns && !__atomic_compare_exchange_n(&header->seen_ns, &seen, now_ns, true,
	                                                     __ATOMIC_RELAXED, __ATOMIC_RELAXED))
		;
}

/*
 * One clock for all who have the file open, and one that never goes back. As
 * long as the system runs its monotonic clock is everybody's, and the file keeps
 * what to add to it; a wall that is ahead of that moves it forward. After a boot
 * it goes on from the wall, or from the last time seen if the wall is behind.
 */
static struct clock_anchor join_clock(const struct table *table)
{
	struct table_header *header = table->header;
	struct clock_anchor mine = clock_start();
	uint64_t boot = os_boot_id(), now_ns = clock_now(&mine);
	uint64_t seen = __atomic_load_n(&header->seen_ns, __ATOMIC_RELAXED);

	if (seen > now_ns)
		mine.offset_ns += seen - now_ns;
	for (;;) {
		struct cell before = cell_load(&header->clock, table->load_is_atomic);

		if (boot != 0 && before.low == boot && (int64_t)(before.high - mine.offset_ns) >= 0) {
			mine.offset_ns = before.high;
			break;
		}
		if (cell_swap(&header->clock, before, (struct cell){boot, mine.offset_ns}))
			break;
	}
	see(header, clock_now(&mine));
	return mine;
}

int memory_open(struct weir_table *store, const struct weir_table_options *options,
                struct weir_error *error)
{
	static const struct weir_table_options defaults;
	struct hash_key secret;
	struct file_map map;
	uint64_t capacity;
	int status;

	options = options ? options : &defaults;
	capacity = options->capacity ? options->capacity : CAPACITY_DEFAULT;
	for (size_t i = 0; i < sizeof options->reserved / sizeof *options->reserved; i++)
		if (options->reserved[i])
			return error_set(error, WEIR_EINVAL, "options: reserved fields must be zero");
	if (table_size(capacity) == 0)
		return error_set(error, WEIR_ERANGE, "capacity: expected 1 to %llu keys, found %llu",
		                 (unsigned long long)WEIR_CAPACITY_MAX, (unsigned long long)capacity);
	status = choose_secret(options, &secret, error);
	if (status == WEIR_OK)
		status = options->path ? map_file(&map, options->path, capacity, &secret, error)
		                       : map_pages(&map, capacity, &secret, error);
	if (status != WEIR_OK)
		return status;
	status = attach(&store->table, &map, options, error);
	if (status != WEIR_OK) {
		os_pages_unmap(map.memory, map.size);
		return status;
	}
	store->is_file = options->path != NULL;
	store->clock = store->is_file ? join_clock(&store->table) : clock_start();
	return WEIR_OK;
}

void memory_close(struct weir_table *store)
{
	if (store->is_file)
		see(store->table.header, clock_now(&store->clock));
	os_pages_unmap(store->table.header, store->table.size);
}

void memory_locate(const struct weir_table *store, struct memory_key *key)
{
	struct table_place place = table_place(&store->table, key->hash);
	unsigned hits = table_hits(place.home, place.tag);

	if (hits != 0)
		key->cell = &place.home[__builtin_ctz(hits)];
	else
		table_prefetch_run(&store->table, &place);
}
