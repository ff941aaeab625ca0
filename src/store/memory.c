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
	store->clock = store->is_file ? file_clock(&store->table) : clock_start(clock_offset(), true);
	return WEIR_OK;
}

void memory_close(struct weir_table *store)
{
	if (store->is_file)
		file_see(&store->table, clock_now(&store->clock));
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
