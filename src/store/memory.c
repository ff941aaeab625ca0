#include "store/memory.h"

#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/os.h"
#include "store/file.h"
#include "store/section.h"

#define CAPACITY_DEFAULT 1000000
#define ID_NONE          UINT32_MAX /* above those of all users and groups */

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
	section_format(map->memory, capacity, 0, secret);
	return WEIR_OK;
}

/* Room that costs nothing until it is used. */
static int map_wide(struct weir_table *store, uint64_t capacity, const struct hash_key *secret,
                    struct weir_error *error)
{
	size_t start = section_wide_offset(capacity), size = section_store_size(capacity) - start;

	store->wide_memory = os_pages_reserve(size);
	if (!store->wide_memory)
		return error_set(error, WEIR_ENOMEM, "capacity: no addresses for %llu wide keys (%zu bytes)",
		                 (unsigned long long)capacity, size);
	for (unsigned width = 1; width < ALGO_WIDTHS; width++)
		section_format((void *)((char *)store->wide_memory + section_of(capacity, width).offset -
		                        start), capacity, width, secret);
	return WEIR_OK;
}

/* The file, which is made when there is none. */
static int open_file(const struct weir_table_options *options, uint64_t capacity,
                     const struct hash_key *secret, int *fd, struct weir_error *error)
{
	struct file_trust trust = {options->owner, options->group};
	int status = file_open(options->path, FILE_SHARED, &trust, fd, error);

	if (status != WEIR_ENOTFOUND)
		return status;
	status = file_create(options->path, capacity, secret, trust.group, error);
	return status == WEIR_OK ? file_open(options->path, FILE_SHARED, &trust, fd, error) : status;
}

static int map_file(struct file_map *map, const struct weir_table_options *options,
                    uint64_t capacity, const struct hash_key *secret, struct weir_error *error)
{
	int fd, status = open_file(options, capacity, secret, &fd, error);

	if (status != WEIR_OK)
		return status;
	status = file_map(fd, options->path, FILE_SHARED, map, error);
	close(fd);
	return status;
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

static void keep_first(void *context, const char *text)
{
	struct weir_error *error = context;

	if (error->status == WEIR_OK)
		error_set(error, WEIR_EINVAL, "%s", text);
}

static int attach_file(struct weir_table *store, const struct weir_table_options *options,
                       uint64_t capacity, const struct hash_key *secret, struct weir_error *error)
{
	struct weir_error inner = {0};
	struct file_map map;
	uint64_t defects;
	int status = map_file(&map, options, capacity, secret, error);

	if (status != WEIR_OK)
		return status;
	defects = section_check(map.memory, map.size, keep_first, &inner);
	status = defects > 0 ? error_set(error, WEIR_EINVAL, "%.120s: %s", options->path, inner.message)
	                     : check_file(map.memory, options, error);
	if (status != WEIR_OK) {
		os_pages_unmap(map.memory, map.size);
		return status;
	}
	capacity = ((struct table_header *)map.memory)->capacity;
	table_view(&store->table, map.memory, table_size(capacity));
	store->wide_memory = (char *)map.memory + section_wide_offset(capacity);
	os_pages_scatter(map.memory, store->table.size);
	os_pages_scatter(store->wide_memory, map.size - section_wide_offset(capacity));
	return WEIR_OK;
}

static int make_in_memory(struct weir_table *store, uint64_t capacity,
                          const struct hash_key *secret, struct weir_error *error)
{
	struct file_map map;
	int status = map_pages(&map, capacity, secret, error);

	if (status != WEIR_OK)
		return status;
	status = map_wide(store, capacity, secret, error);
	if (status != WEIR_OK) {
		os_pages_unmap(map.memory, map.size);
		return status;
	}
	table_view(&store->table, map.memory, map.size);
	return WEIR_OK;
}

static void view_wide(struct weir_table *store)
{
	uint64_t capacity = store->table.header->capacity;
	size_t start = section_wide_offset(capacity);

	for (unsigned width = 1; width < ALGO_WIDTHS; width++) {
		struct section section = section_of(capacity, width);
		char *memory = (char *)store->wide_memory - start;

		table_view(&store->wide[width].table, memory + section.offset, section.table_size);
		store->wide[width].rows = (struct cell *)(void *)(memory + section.rows_offset);
	}
}

int memory_open(struct weir_table *store, const struct weir_table_options *options,
                struct weir_error *error)
{
	static const struct weir_table_options defaults;
	struct hash_key secret;
	uint64_t capacity;
	int status;

	options = options ? options : &defaults;
	capacity = options->capacity ? options->capacity : CAPACITY_DEFAULT;
	for (size_t i = 0; i < sizeof options->reserved / sizeof *options->reserved; i++)
		if (options->reserved[i])
			return error_set(error, WEIR_EINVAL, "options: reserved fields must be zero");
	if (options->owner >= ID_NONE || options->group >= ID_NONE)
		return error_set(error, WEIR_ERANGE, "owner, group: expected numbers of users and groups");
	if (table_size(capacity) == 0)
		return error_set(error, WEIR_ERANGE, "capacity: expected 1 to %llu keys, found %llu",
		                 (unsigned long long)WEIR_CAPACITY_MAX, (unsigned long long)capacity);
	status = choose_secret(options, &secret, error);
	if (status == WEIR_OK)
		status = options->path ? attach_file(store, options, capacity, &secret, error)
		                       : make_in_memory(store, capacity, &secret, error);
	if (status != WEIR_OK)
		return status;
	view_wide(store);
	store->room = NULL;
	store->is_file = options->path != NULL;
	store->clock = store->is_file ? file_clock(&store->table) : clock_start(clock_offset(), true);
	return WEIR_OK;
}

bool memory_is_full(const struct weir_table *store, const struct algo_limit *limit,
                    const struct table_place *place, uint64_t now_ns, struct algo_outcome *out)
{
	bool full = table_is_full(&store->table, place, now_ns);

	if (full)
		algo_outcome_full(limit, out);
	return full;
}

bool memory_forget(struct weir_table *store, const struct memory_key *key, uint64_t now_ns)
{
	struct table_place place = table_place(&store->table, key->hash);

	for (;;) {
		struct table_slot slot = memory_find(&store->table, &place, key->cell);

		if (memory_unpack(slot.value, now_ns).until_ns == 0)
			return false;
		if (table_store(&store->table, &place, slot, (struct cell){0, 0}, now_ns))
			return true;
	}
}

int memory_sync(struct weir_table *store)
{
	if (!store->is_file)
		return WEIR_OK;
	file_see(&store->table, clock_now(&store->clock));
	return os_pages_sync(store->table.header, section_store_size(store->table.header->capacity));
}

void memory_close(struct weir_table *store)
{
	uint64_t capacity = store->table.header->capacity;
	size_t start = section_wide_offset(capacity), size = section_store_size(capacity);

	if (store->is_file) {
		file_see(&store->table, clock_now(&store->clock));
		os_pages_unmap(store->table.header, size);
		return;
	}
	os_pages_unmap(store->wide_memory, size - start);
	os_pages_unmap(store->table.header, store->table.size);
}
