/*
 * store_resize.c: writes a larger copy of a file store, for `weir store resize`.
 *
 * The file does not contain the names of keys, so the cell of a key in a larger table can not be
 * computed. Therefore every state stays in its cell. A table that must grow stays in the file as a
 * former generation, in which its keys stay while they live. A larger, empty table is added
 * (docs/design/store-file.md). A file has one table that all limits share, whose larger one comes
 * first of all, and tables of single limits, whose larger ones follow them. Former tables without
 * live states are left out.
 */
#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "cli/store_tables.h"

#define PAGE ((size_t)4096)

/* A section of the new file. */
struct part {
	struct section section;
	const struct table_header *from; /* in the old file; NULL for a new, empty table */
};

/* The new file: its sections in their order. */
struct plan {
	const char *path; /* of the file, for errors */
	uint64_t capacity, now_ns;
	uint64_t size; /* of the new file */
	size_t count;
	struct part parts[1 + SECTION_MAX];
};

/* Sets WEIR_EIO with the reason in errno, and returns it. */
static int set_io_error(struct weir_error *error, const char *path, const char *what)
{
	return error_set(error, WEIR_EIO, "%.120s: %s: %m", path, what);
}

/* Whether a cell has a live state. The layouts of limits, in the shared table, count as none. */
static bool is_live(const struct section *section, struct cell cell, uint64_t now_ns)
{
	return !cell_is_empty(cell) && !cell_is_claim(cell) && cell_ahead_ns(cell, now_ns) > 0 &&
	       !(section->record_cells == 0 && cell_is_metadata(cell));
}

static bool has_live_state(const struct section *section, const struct table *table,
                           uint64_t now_ns)
{
	for (uint64_t i = 0; i < table->sets * TABLE_SET_CELLS; i++)
		if (is_live(section, table->cells[i], now_ns))
			return true;
	return false;
}

/* Removes cells that were claimed for states which nobody will write any more. */
static void empty_claimed_cells(struct table *table)
{
	for (uint64_t i = 0; i < table->sets * TABLE_SET_CELLS; i++)
		if (cell_is_claim(table->cells[i]))
			table->cells[i] = (struct cell){0, 0};
}

/* Appends a section to the new file. EFULL if there are too many, in all or of the same limit. */
static int add_part(struct plan *plan, const struct section *section,
                    const struct table_header *from, struct weir_error *error)
{
	size_t same_limit_count = 0;

	for (size_t i = 1; i < plan->count; i++)
		same_limit_count += plan->parts[i].section.identity == section->identity;
	if (plan->count == sizeof plan->parts / sizeof *plan->parts ||
	    same_limit_count > SECTION_FORMERS)
		return error_set(
		    error, WEIR_EFULL,
		    "%.120s: expected at most %d tables, %d of a limit, found more: wait until "
		    "keys of the former tables are spent",
		    plan->path, SECTION_MAX, 1 + SECTION_FORMERS);
	plan->parts[plan->count++] = (struct part){*section, from};
	plan->size += section->size;
	return WEIR_OK;
}

/* Whether the table is the newest of its limit; those before it are former generations. */
static bool is_last_of_limit(const struct store_tables *tables, size_t i)
{
	for (size_t j = i + 1; j < tables->count; j++)
		if (tables->found[j].section.identity == tables->found[i].section.identity)
			return false;
	return true;
}

/*
 * Whether the limit of a table needs a larger one: the capacity of a limit without `keys:` follows
 * that of the store. Sets *larger to the section of that table.
 */
static bool must_grow(const struct store_tables *tables, size_t i, uint64_t capacity,
                      struct section *larger)
{
	const struct section *old = &tables->found[i].section;
	struct section by_default; /* by the store's capacity so far */

	if (old->record_cells == 0 || !is_last_of_limit(tables, i))
		return false;
	by_default = section_of(old->identity, old->record_cells, 0, tables->found[0].section.capacity);
	*larger = section_of(old->identity, old->record_cells, 0, capacity);
	return old->capacity == by_default.capacity && larger->capacity > old->capacity;
}

/*
 * Adds a table of the old file, unless it is a former one with spent states alone, and after it the
 * larger table that its limit needs. A table that a larger one replaces is drained: it takes no new
 * keys. So is table 0, which all limits share: plan_all has added its larger one already.
 */
static int plan_table(struct plan *plan, struct store_tables *tables, size_t i,
                      struct weir_error *error)
{
	struct table *table = &tables->found[i].table;
	struct section section = tables->found[i].section, larger;
	bool is_replaced = must_grow(tables, i, plan->capacity, &larger), is_newest;
	int status = WEIR_OK;

	if (i == 0)
		section.identity = SECTION_SHARED;
	else if (section.identity == 0) /* of an unknown limit, since its header was damaged */
		return WEIR_OK;
	section.is_draining |= i == 0 || is_replaced;
	is_newest = !section.is_draining && is_last_of_limit(tables, i);
	if (section.is_draining)
		empty_claimed_cells(table);
	if (is_newest || has_live_state(&section, table, plan->now_ns))
		status = add_part(plan, &section, table->header, error);
	return status == WEIR_OK && is_replaced ? add_part(plan, &larger, NULL, error) : status;
}

/* Plans the new file: a larger, empty shared table, and then the tables of the old file. */
static int plan_all(struct plan *plan, struct store_tables *tables, struct weir_error *error)
{
	struct section first = {.capacity = plan->capacity, .size = section_size(plan->capacity, 0)};
	int status = add_part(plan, &first, NULL, error);

	for (size_t i = 0; status == WEIR_OK && i < tables->count; i++)
		status = plan_table(plan, tables, i, error);
	return status;
}

static int write_at(int fd, const char *path, const char *from, size_t size, uint64_t offset,
                    struct weir_error *error)
{
	while (size > 0) {
		ssize_t done = pwrite(fd, from, size, (off_t)offset);

		if (done < 0 && errno != EINTR)
			return set_io_error(error, path, "cannot write to it");
		done = done < 0 ? 0 : done;
		from += done;
		offset += (uint64_t)done;
		size -= (size_t)done;
	}
	return WEIR_OK;
}

/* Copies cells and records. Pages of zeros are not written, since the new file has zeros there. */
static int copy_table(int fd, const char *path, const struct part *part, uint64_t offset,
                      struct weir_error *error)
{
	static const char zeros[PAGE];
	const char *from = (const char *)part->from;
	int status = WEIR_OK;

	for (uint64_t at = sizeof *part->from; status == WEIR_OK && at < part->section.size; at += PAGE)
		if (memcmp(from + at, zeros, PAGE) != 0)
			status = write_at(fd, path, from + at, PAGE, offset + at, error);
	return status;
}

/* Makes the header of a part. The first one also has the old clock, and the end of the new file. */
static void make_header(const struct plan *plan, const struct part *part,
                        const struct table_header *old_first, struct table_header *header)
{
	memset(header, 0, sizeof *header);
	section_format(header, &part->section, &old_first->secret);
	if (part == plan->parts) {
		header->clock = old_first->clock;
		header->recorded_ns = old_first->recorded_ns;
		header->end = plan->size;
	}
	if (part->from) {
		header->evictions = part->from->evictions;
		header->claims = part->from->claims;
		header->is_former = part->from->is_former || part->section.is_draining;
	}
}

/* Gives the new file the owner, group and mode of the old one. Until then it is private. */
static int copy_permissions(int fd, const char *path, const struct stat *old,
                            struct weir_error *error)
{
	struct stat new_file;

	if (fstat(fd, &new_file) != 0)
		return set_io_error(error, path, "cannot read its status");
	if ((new_file.st_uid != old->st_uid || new_file.st_gid != old->st_gid) &&
	    fchown(fd, old->st_uid, old->st_gid) != 0)
		return set_io_error(error, path, "cannot give it the owner and group of the old file");
	if (fchmod(fd, old->st_mode & 07777) != 0)
		return set_io_error(error, path, "cannot give it the mode of the old file");
	return WEIR_OK;
}

/* Writes all sections with their headers to the new file, and the file to its disk. */
static int write_file(int fd, const char *path, const struct plan *plan,
                      const struct table_header *old_first, const struct stat *old,
                      struct weir_error *error)
{
	struct table_header header;
	uint64_t offset = 0;
	int status = file_resize(fd, path, plan->size, error);

	for (size_t i = 0; status == WEIR_OK && i < plan->count; i++) {
		const struct part *part = &plan->parts[i];

		make_header(plan, part, old_first, &header);
		status = file_write_header(fd, path, offset, &header, error);
		if (status == WEIR_OK && part->from)
			status = copy_table(fd, path, part, offset, error);
		offset += part->section.size;
	}
	if (status == WEIR_OK)
		status = copy_permissions(fd, path, old, error);
	if (status == WEIR_OK && fsync(fd) != 0)
		status = set_io_error(error, path, "cannot write it to its disk");
	return status;
}

/* Writes the file's directory to the disk, without which the new name might be lost. */
static int sync_directory(const char *path, struct weir_error *error)
{
	char *copy = strdup(path);
	int fd = copy ? open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
	int status =
	    fd >= 0 && fsync(fd) == 0
	        ? WEIR_OK
	        : set_io_error(error, path, "enlarged, but cannot write its directory to the disk");

	if (fd >= 0)
		close(fd);
	free(copy);
	return status;
}

/* Writes the new file at `new_path`, and renames it to `path` if that is still the old file. */
static int replace_file(int old_fd, const char *path, const char *new_path, const struct plan *plan,
                        const struct table_header *old_first, struct weir_error *error)
{
	struct stat old;
	int fd, status;

	if (fstat(old_fd, &old) != 0)
		return set_io_error(error, path, "cannot read its status");
	if (old.st_nlink != 1)
		return error_set(
		    error, WEIR_EINVAL,
		    "%.120s: expected a file of one name, found %llu (hard links), which would "
		    "lead to different files",
		    path, (unsigned long long)old.st_nlink);
	if (unlink(new_path) != 0 && errno != ENOENT) /* of a process that was killed */
		return set_io_error(error, new_path, "cannot remove it");
	fd = open(new_path, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return set_io_error(error, new_path, "cannot make it");
	status = write_file(fd, new_path, plan, old_first, &old, error);
	if (status == WEIR_OK && !file_is_at(old_fd, path))
		status = error_set(error, WEIR_EIO,
		                   "%.120s: expected the file that was opened, found another", path);
	if (status == WEIR_OK && rename(new_path, path) != 0)
		status = set_io_error(error, path, "cannot put the larger file in its place");
	if (status != WEIR_OK)
		unlink(new_path);
	close(fd);
	return status == WEIR_OK ? sync_directory(path, error) : status;
}

int store_resize(int fd, const char *path, struct store_tables *tables, uint64_t capacity,
                 uint64_t now_ns, struct weir_error *error)
{
	struct plan *plan = calloc(1, sizeof *plan);
	char *new_path = NULL;
	int status;

	if (!plan || asprintf(&new_path, "%s.resizing", path) < 0) {
		free(plan);
		return error_set(error, WEIR_ENOMEM, "out of memory");
	}
	plan->path = path;
	plan->capacity = capacity;
	plan->now_ns = now_ns;
	status = plan_all(plan, tables, error);
	if (status == WEIR_OK)
		status = replace_file(fd, path, new_path, plan, tables->found[0].table.header, error);
	free(new_path);
	free(plan);
	return status;
}
