/*
 * memory_open.c: opens, syncs and closes a store, which has the states of all keys: in memory of
 * this process, or in a file that several processes map.
 */
#include "store/memory.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/number.h"
#include "base/os/os.h"
#include "store/file.h"
#include "store/section.h"
#include "store/mapped_file.h"

#define CAPACITY_DEFAULT 1000000
#define ID_END           UINT32_MAX /* above those of all users and groups */

/* Unmaps and frees a limit's table and its former ones. */
static void unmap_tables(struct wide_table *wide)
{
	struct wide_table *former;

	for (; wide; wide = former) {
		former = wide->former;
		os_pages_unmap(wide->table.header, wide->section.size);
		free(wide);
	}
}

static void unmap(struct memory *store)
{
	for (size_t i = 0; i < MEMORY_SLOTS; i++)
		unmap_tables(store->wide[i]);
	unmap_tables(store->former);
	os_pages_unmap(store->table.header, store->section.size);
	if (store->file)
		close(store->file->fd);
	free(store->file);
}

/* The secret that keys the hashes: the configured one, or a random one. */
static int choose_secret(const struct weir_table_options *options, struct hash_key *secret,
                         struct weir_error *error)
{
	if (options->secret)
		memcpy(secret, options->secret, sizeof *secret);
	else if (os_random(secret, sizeof *secret) != WEIR_OK)
		return error_set(error, WEIR_EIO, "the system gives no random bytes");
	return WEIR_OK;
}

static int make_in_memory(struct memory *store, uint64_t capacity, const struct hash_key *secret,
                          struct weir_error *error)
{
	size_t size = section_size(capacity, 0);
	void *memory = os_pages_map(size);
	char size_text[SIZE_TEXT_MAX];

	if (!memory) {
		format_size(size_text, size, true);
		return error_set(error, WEIR_ENOMEM, "capacity: no memory for %llu keys (%s)",
		                 (unsigned long long)capacity, size_text);
	}
	store->section = (struct section){.capacity = capacity, .size = size};
	section_format(memory, &store->section, secret);
	table_attach(&store->table, memory, table_sets(capacity));
	store->secret = *secret;
	keyhash_init(&store->hash, secret);
	return WEIR_OK;
}

/* Opens the file, and makes it if there is none. */
static int open_or_create_file(const struct weir_table_options *options, uint64_t capacity,
                               const struct hash_key *secret, int *fd, struct weir_error *error)
{
	struct file_trust trust = {options->owner, options->group};
	int status = file_open(options->path, FILE_SHARED, &trust, fd, error);

	if (status != WEIR_ENOTFOUND)
		return status;
	status = file_create(options->path, capacity, secret, trust.group, error);
	return status == WEIR_OK ? file_open(options->path, FILE_SHARED, &trust, fd, error) : status;
}

/* `weir store resize` may replace the file between open and lock; then it is opened again. */
#define OPEN_TRIES 100

/* Opens the file under a shared lock, so that `weir store` does not change it until *fd is closed.
 */
static int open_locked_file(const struct weir_table_options *options, uint64_t capacity,
                            const struct hash_key *secret, int *fd, struct weir_error *error)
{
	for (int i = 0; i < OPEN_TRIES; i++) {
		int status = open_or_create_file(options, capacity, secret, fd, error);

		if (status != WEIR_OK)
			return status;
		status = file_lock_shared(*fd, options->path, error);
		if (status == WEIR_OK && file_is_at(*fd, options->path))
			return WEIR_OK;
		close(*fd);
		if (status != WEIR_OK)
			return status;
	}
	return error_set(error, WEIR_EIO, "%.120s: expected a file that stays, found it replaced",
	                 options->path);
}

/* Refuses a file whose capacity or secret differ from those in the options. */
static int check_file_options(const struct memory *store, const struct weir_table_options *options,
                              struct weir_error *error)
{
	uint64_t capacity = store->section.capacity;
	const struct hash_key *secret = &store->secret;

	if (options->capacity > capacity)
		return error_set(error, WEIR_EINVAL,
		                 "capacity: expected %llu, found %llu in the file: to enlarge it, stop all "
		                 "programs that use it and run `weir store resize %.80s --capacity %llu`",
		                 (unsigned long long)options->capacity, (unsigned long long)capacity,
		                 options->path, (unsigned long long)options->capacity);
	if (options->capacity && options->capacity != capacity)
		return error_set(error, WEIR_EINVAL,
		                 "%.120s: capacity: expected %llu, found %llu in the file: use that, or "
		                 "begin with a new file",
		                 options->path, (unsigned long long)options->capacity,
		                 (unsigned long long)capacity);
	if (options->secret && memcmp(options->secret, secret, sizeof *secret) != 0)
		return error_set(error, WEIR_EINVAL,
		                 "%.120s: secret: expected the configured one, found another",
		                 options->path);
	return WEIR_OK;
}

/* Opens and maps the store's file. `capacity` and `secret` are for a new file. */
static int attach_file(struct memory *store, const struct weir_table_options *options,
                       uint64_t capacity, const struct hash_key *secret, struct weir_error *error)
{
	int fd, status = open_locked_file(options, capacity, secret, &fd, error);

	if (status != WEIR_OK)
		return status;
	status = mapped_file_open(store, fd, options, error);
	if (status == WEIR_OK)
		status = check_file_options(store, options, error);
	return status;
}

int memory_open(struct memory *store, const struct weir_table_options *options,
                struct weir_error *error)
{
	static const struct weir_table_options defaults;
	struct hash_key secret;
	uint64_t capacity;
	int status;

	memset(store, 0, sizeof *store);
	options = options ? options : &defaults;
	capacity = options->capacity ? options->capacity : CAPACITY_DEFAULT;
	status = error_check_reserved(error, options->reserved);
	if (status != WEIR_OK)
		return status;
	if (options->owner >= ID_END || options->group >= ID_END)
		return error_set(error, WEIR_ERANGE, "owner, group: expected numbers of users and groups");
	if (table_size(capacity) == 0)
		return error_set(error, WEIR_ERANGE, "capacity: expected 1 to %llu keys, found %llu",
		                 (unsigned long long)WEIR_CAPACITY_MAX, (unsigned long long)capacity);
	status = choose_secret(options, &secret, error);
	if (status == WEIR_OK)
		status = options->path ? attach_file(store, options, capacity, &secret, error)
		                       : make_in_memory(store, capacity, &secret, error);
	if (status != WEIR_OK) {
		unmap(store);
		return status;
	}
	store->clock = store->file ? file_open_clock(&store->table) : clock_start(clock_offset(), true);
	return WEIR_OK;
}

static int sync_tables(const struct wide_table *wide)
{
	int status = WEIR_OK;

	for (; wide; wide = wide->former)
		if (os_pages_sync(wide->table.header, wide->section.size) != WEIR_OK)
			status = WEIR_EIO;
	return status;
}

/* Writes a file's changes to its disk. */
int store_sync(struct store *store)
{
	const struct memory *memory = memory_of(store);
	int status;

	if (!memory->file)
		return WEIR_OK;
	file_record_time(&memory->table, clock_now(&memory->clock));
	status = os_pages_sync(memory->table.header, memory->section.size);
	for (size_t i = 0; i < MEMORY_SLOTS; i++)
		if (sync_tables(wide_at(memory, i)) != WEIR_OK)
			status = WEIR_EIO;
	return sync_tables(memory->former) != WEIR_OK ? WEIR_EIO : status;
}

void memory_close(struct memory *store)
{
	if (store->file)
		file_record_time(&store->table, clock_now(&store->clock));
	unmap(store);
}
