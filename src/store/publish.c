/*
 * publish.c: makes a new table the newest one of its limit, so that all threads of this process
 * find it. The table before it remains as a former one.
 *
 * The states of one word have a table of all limits, which is not published here. But a file that
 * `weir store` has resized has former tables of it (SECTION_SHARED), too, which are read when the
 * file is opened.
 */
#include "store/publish.h"

#include <stdlib.h>

#include "base/error.h"
#include "base/os/os.h"

/* Whether the table is as large and its records as wide as those of the section. */
static bool covers(const struct wide_table *wide, const struct section *section)
{
	return wide->section.record_cells >= section->record_cells &&
	       wide->section.capacity >= section->capacity;
}

/* How many tables there are from `wide` on. */
static size_t count_tables(const struct wide_table *wide)
{
	size_t n = 0;

	for (; wide; wide = wide->former)
		n++;
	return n;
}

/*
 * Makes `wide` the newest of its limit's tables. Returns false if there is one already that is as
 * large and as wide. The slots are a hash map by the identity, half of which is free always
 * (publish_check), so the search finds the limit's slot or a free one.
 */
static bool publish_table(struct memory *store, struct wide_table *wide)
{
	uint64_t identity = wide->section.identity;

	for (size_t i = identity % MEMORY_SLOTS;; i = (i + 1) % MEMORY_SLOTS) {
		struct wide_table *there = wide_at(store, i);

		while (!there || there->section.identity == identity) {
			if (there && covers(there, &wide->section))
				return false;
			wide->former = there;
			/* Before the exchange, so that a thread which inserts a key there finds it out. */
			if (there)
				__atomic_store_n(&there->table.header->is_former, 1, __ATOMIC_RELEASE);
			/* Release: a thread that finds the table finds its fields, too. */
			if (__atomic_compare_exchange_n(&store->wide[i], &there, wide, false, __ATOMIC_ACQ_REL,
			                                __ATOMIC_ACQUIRE))
				return true;
		}
	}
}

/*
 * Adds a former table of one-word states, before another thread has the store. A key is in one of
 * them at most, so their order is free.
 */
static void add_former(struct memory *store, struct wide_table *former)
{
	former->former = store->former;
	store->former = former;
}

/* Whether the store may have `more` tables, and the limit another one. Sets the error otherwise. */
int publish_check(const struct memory *store, uint64_t identity, size_t more,
                  struct weir_error *error)
{
	const char *path = store->path ? store->path : "this process";
	const struct wide_table *newest;

	if (__atomic_load_n(&store->wide_count, __ATOMIC_RELAXED) + more > SECTION_MAX)
		return error_set(error, WEIR_EFULL,
		                 "keys: expected at most %d tables of limits with `keys` in %.80s, "
		                 "found more",
		                 SECTION_MAX, path);
	newest = identity == SECTION_SHARED ? store->former : memory_wide(store, identity);
	if (count_tables(newest) > SECTION_FORMERS)
		return error_set(error, WEIR_EFULL,
		                 "keys: expected a limit to grow at most %d times in %.80s, found more",
		                 SECTION_FORMERS, path);
	return WEIR_OK;
}

/* Publishes the table in `memory`. Unmaps the memory if that fails or the table is not needed. */
int publish_section(struct memory *store, const struct section *section, void *memory,
                    struct weir_error *error)
{
	bool is_shared = section->identity == SECTION_SHARED;
	struct wide_table *wide = aligned_alloc(_Alignof(struct wide_table), sizeof *wide);
	int status = wide ? publish_check(store, section->identity, 1, error)
	                  : error_set(error, WEIR_ENOMEM, "out of memory");

	if (status == WEIR_OK) {
		table_attach(&wide->table, memory, table_sets(section->capacity));
		wide->table.is_wide = !is_shared;
		wide->records = (void *)((char *)memory + section_records_offset(section->capacity));
		wide->section = *section;
		if (is_shared)
			add_former(store, wide);
		if (is_shared || publish_table(store, wide)) {
			__atomic_fetch_add(&store->wide_count, 1, __ATOMIC_RELAXED);
			return WEIR_OK;
		}
	}
	os_pages_unmap(memory, section->size);
	free(wide);
	return status;
}
