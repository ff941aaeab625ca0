#include "store/memory.h"

#include <string.h>

#include "base/error.h"
#include "base/os.h"

#define CAPACITY_DEFAULT 1000000

int memory_open(struct weir_table *store, const struct weir_table_options *options,
                struct weir_error *error)
{
	uint64_t capacity = options && options->capacity ? options->capacity : CAPACITY_DEFAULT;
	size_t size = table_size(capacity);
	struct hash_key secret;
	void *memory;

	for (size_t i = 0; options && i < sizeof options->reserved / sizeof *options->reserved; i++)
		if (options->reserved[i])
			return error_set(error, WEIR_EINVAL, "options: reserved fields must be zero");
	if (size == 0)
		return error_set(error, WEIR_ERANGE, "capacity: expected 1 to %llu keys, found %llu",
		                 (unsigned long long)WEIR_CAPACITY_MAX, (unsigned long long)capacity);
	if (options && options->secret)
		memcpy(&secret, options->secret, sizeof secret);
	else if (os_random(&secret, sizeof secret) != WEIR_OK)
		return error_set(error, WEIR_EIO, "the system gives no random bytes");
	memory = os_pages_map(size);
	if (!memory)
		return error_set(error, WEIR_ENOMEM, "capacity: no memory for %llu keys (%zu bytes)",
		                 (unsigned long long)capacity, size);
	table_format(&store->table, memory, capacity, &secret);
	store->clock = clock_start();
	return WEIR_OK;
}

void memory_close(struct weir_table *store)
{
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
