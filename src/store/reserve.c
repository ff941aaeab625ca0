/*
 * reserve.c: makes a table for each limit whose states are *wide*: they need more than one 16-byte
 * cell for a key, and so have a record of further cells behind it.
 *
 * A limit gets its table when its configuration is opened, or at its first call. If the parameters
 * change so that records or capacity are too small, the limit gets a larger table. The one before
 * remains as its former table, because units of its keys are in use there. Tables never become
 * smaller, so even if limits change often, few tables are made.
 */
#include "store/publish.h"

#include <stdlib.h>

#include "base/error.h"
#include "base/number.h"
#include "base/os/os.h"
#include "store/mapped_file.h"

/* Whether the limit needs no table, or has one that is large and wide enough. */
static bool has_fitting_table(const struct memory *store, const struct algo_limit *limit)
{
	const struct wide_table *wide = memory_wide(store, limit->identity);

	return limit->width == 0 ||
	       (memory_is_wide_enough(wide, limit) && wide->section.capacity >= limit->keys);
}

/* The section for a table that the limit needs. Its records are no narrower than before. */
static struct section section_for(const struct memory *store, const struct algo_limit *limit)
{
	const struct wide_table *wide = memory_wide(store, limit->identity);
	uint64_t width = u64_max(limit->width, wide ? wide->section.record_cells : 0);

	return section_of(limit->identity, (unsigned)width, limit->keys, store->section.capacity);
}

/* Writes the sections that the limits still need to `fresh`, which has space for n, and counts
 * them. */
static size_t plan_sections(const struct memory *store, const struct algo_limit *const *limits,
                            size_t n, struct section *fresh)
{
	size_t count = 0;

	for (size_t i = 0; i < n; i++)
		if (!has_fitting_table(store, limits[i]))
			fresh[count++] = section_for(store, limits[i]);
	return count;
}

/*
 * Adds the sections to the file. Plans them again under the lock, which has mapped those that other
 * processes have added meanwhile.
 */
static int reserve_in_file(struct memory *store, const struct algo_limit *const *limits, size_t n,
                           struct section *fresh, struct weir_error *error)
{
	int fd, status = mapped_file_lock(store, &fd, error);
	size_t count;

	if (status != WEIR_OK)
		return status;
	count = plan_sections(store, limits, n, fresh);
	for (size_t i = 0; status == WEIR_OK && i < count; i++)
		status = publish_check(store, fresh[i].identity, count, error);
	if (status == WEIR_OK && count > 0)
		status = mapped_file_add_sections(store, fd, fresh, count, error);
	mapped_file_unlock(fd);
	return status;
}

/* Reserves zeroed memory for each section. Returns an error if one of them is impossible. */
static int reserve_pages(const struct memory *store, const struct section *fresh, size_t count,
                         void **memory, struct weir_error *error)
{
	char size[SIZE_TEXT_MAX];

	for (size_t i = 0; i < count; i++) {
		int status = publish_check(store, fresh[i].identity, count, error);

		if (status != WEIR_OK)
			return status;
		memory[i] = os_pages_reserve(fresh[i].size);
		if (!memory[i]) {
			format_size(size, fresh[i].size, true);
			return error_set(error, WEIR_ENOMEM, "keys: no addresses for %llu keys (%s)",
			                 (unsigned long long)fresh[i].capacity, size);
		}
	}
	return WEIR_OK;
}

/*
 * Reserves the memory of all sections before it publishes one, so that all are made or none; but if
 * memory for the small struct of a table is short, those before it stay.
 */
static int reserve_in_memory(struct memory *store, const struct section *fresh, size_t count,
                             struct weir_error *error)
{
	void **memory = calloc(count, sizeof *memory);
	int status = memory ? reserve_pages(store, fresh, count, memory, error)
	                    : error_set(error, WEIR_ENOMEM, "out of memory");
	size_t published = 0;

	while (status == WEIR_OK && published < count) {
		const struct section *section = &fresh[published];

		section_format(memory[published], section, &store->secret);
		/* After an error, too, it has taken over the memory. */
		status = publish_section(store, section, memory[published++], error);
	}
	for (size_t i = published; memory && i < count; i++)
		if (memory[i])
			os_pages_unmap(memory[i], fresh[i].size);
	free(memory);
	return status;
}

int store_reserve(struct store *store, const struct algo_limit *const *limits, size_t n,
                  struct weir_error *error)
{
	struct memory *memory = memory_of(store);
	struct section *fresh = calloc(n ? n : 1, sizeof *fresh);
	int status = WEIR_OK;
	size_t count;

	if (!fresh)
		return error_set(error, WEIR_ENOMEM, "out of memory");
	count = plan_sections(memory, limits, n, fresh);
	if (count > 0)
		status = memory->file ? reserve_in_file(memory, limits, n, fresh, error)
		                      : reserve_in_memory(memory, fresh, count, error);
	free(fresh);
	return status;
}

/*
 * For a table that is marked as former: locks the file, which maps the tables that other processes
 * have added. Returns the limit's newest table, or `wide` if there is none or the lock fails.
 */
struct wide_table *memory_find_newer(struct memory *store, struct wide_table *wide)
{
	struct wide_table *newer;
	int fd;

	if (mapped_file_lock(store, &fd, NULL) != WEIR_OK)
		return wide;
	newer = memory_wide(store, wide->section.identity);
	if (newer == wide) /* the mark is damaged, or a repair has removed the newer table */
		__atomic_store_n(&wide->table.header->is_former, 0, __ATOMIC_RELAXED);
	mapped_file_unlock(fd);
	return newer;
}

/* Makes a table for a limit that has no fitting one. */
int memory_admit_slow(struct memory *store, const struct algo_limit *limit, struct wide_table **out)
{
	int status = store_reserve(&store->store, &limit, 1, NULL);

	*out = memory_wide(store, limit->identity);
	return status;
}

static struct store_capacity capacity_in(const struct section *section)
{
	return (struct store_capacity){section->capacity, section->size, section->identity == 0};
}

struct store_capacity store_capacity_of(const struct store *store, const struct algo_limit *limit)
{
	const struct memory *memory = memory_of(store);

	return capacity_in(limit->width == 0 ? &memory->section
	                                     : &memory_wide(memory, limit->identity)->section);
}

struct store_capacity store_capacity_planned(uint64_t capacity, const struct algo_limit *limit)
{
	struct section section = {.capacity = capacity, .size = section_size(capacity, 0)};

	if (limit->width != 0)
		section = section_of(limit->identity, limit->width, limit->keys, capacity);
	return capacity_in(&section);
}

static void add_table_stats(const struct wide_table *wide, uint64_t now_ns,
                            struct weir_table_stats *stats)
{
	for (; wide; wide = wide->former) {
		if (__atomic_load_n(&wide->table.header->claims, __ATOMIC_RELAXED) == 0)
			continue; /* no key was ever inserted, so its pages take no memory */
		stats->cells += wide->table.sets * TABLE_SET_CELLS;
		stats->live += table_live(&wide->table, now_ns);
		stats->evictions += table_evictions(&wide->table);
		stats->bytes += wide->section.size;
		stats->sample_weight = u64_max(stats->sample_weight, table_sample_weight(&wide->table));
	}
}

void wide_add_stats(const struct memory *store, uint64_t now_ns, struct weir_table_stats *stats)
{
	for (size_t i = 0; i < MEMORY_SLOTS; i++)
		add_table_stats(wide_at(store, i), now_ns, stats);
	add_table_stats(store->former, now_ns, stats);
}
