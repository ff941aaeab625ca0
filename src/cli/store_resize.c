/*
 * enlarge.c: makes a file store larger.
 *
 * Names of keys are not in the file, so nobody can tell where in a larger table a key belongs.
 * Therefore every state stays in its cell. A table that grows stays in the file as a former one,
 * whose keys stay in it while they live, and a larger, empty table comes first
 * (docs/design/key-table.md). Former tables in which nothing lives are left out.
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
	const struct table_header *from; /* in the old file; NULL if it is new, and empty */
};

struct plan {
	const char *path; /* of the file, for errors */
	uint64_t capacity, now_ns;
	uint64_t size;
	size_t count;
	struct part parts[1 + SECTION_MAX];
};

static int fail(struct weir_error *error, const char *path, const char *what)
{
	return error_set(error, WEIR_EIO, "%.120s: %s: %m", path, what);
}

/* Notes about limits, in the table of one-word states, say nothing without states. */
static bool is_live(const struct section *section, struct cell cell, uint64_t now_ns)
{
	return !cell_is_empty(cell) && !cell_is_claim(cell) && cell_ahead_ns(cell, now_ns) > 0 &&
	       !(section->record_cells == 0 && cell_is_metadata(cell));
}

static bool lives(const struct section *section, const struct table *table, uint64_t now_ns)
{
	for (uint64_t i = 0; i < table->sets * TABLE_SET_CELLS; i++)
		if (is_live(section, table->cells[i], now_ns))
			return true;
	return false;
}

/* Nobody is about to make states of them any more. */
static void drop_claims(struct table *table)
{
	for (uint64_t i = 0; i < table->sets * TABLE_SET_CELLS; i++)
		if (cell_is_claim(table->cells[i]))
			table->cells[i] = (struct cell){0, 0};
}

static int add(struct plan *plan, const struct section *section, const struct table_header *from,
               struct weir_error *error)
{
	size_t same = 0;

	for (size_t i = 1; i < plan->count; i++)
		same += plan->parts[i].section.identity == section->identity;
	if (plan->count == sizeof plan->parts / sizeof *plan->parts || same > SECTION_FORMERS)
		return error_set(
		    error, WEIR_EFULL,
		    "%.120s: expected at most %d tables, %d of a limit, found more: wait until "
		    "keys of the former tables are spent",
		    plan->path, SECTION_MAX, 1 + SECTION_FORMERS);
	plan->parts[plan->count++] = (struct part){*section, from};
	plan->size += section->size;
	return WEIR_OK;
}

static bool is_last(const struct store_tables *tables, size_t i)
{
	for (size_t j = i + 1; j < tables->count; j++)
		if (tables->found[j].section.identity == tables->found[i].section.identity)
			return false;
	return true;
}

/* Whether it is a limit's that did not name its keys; `larger` is what it gets then. */
static bool grows(const struct store_tables *tables, size_t i, uint64_t capacity,
                  struct section *larger)
{
	const struct section *old = &tables->found[i].section;
	struct section now;

	if (old->record_cells == 0 || !is_last(tables, i))
		return false;
	now = section_of(old->identity, old->record_cells, 0, tables->found[0].section.capacity);
	*larger = section_of(old->identity, old->record_cells, 0, capacity);
	return old->capacity == now.capacity && larger->capacity > old->capacity;
}

static int plan_table(struct plan *plan, struct store_tables *tables, size_t i,
                      struct weir_error *error)
{
	struct table *table = &tables->found[i].table;
	struct section section = tables->found[i].section, larger;
	bool is_larger = grows(tables, i, plan->capacity, &larger), is_former;
	int status = WEIR_OK;

	if (i == 0)
		section.identity = SECTION_SHARED;
	else if (section.identity == 0) /* lost before */
		return WEIR_OK;
	section.is_draining |= i == 0 || is_larger;
	is_former = section.is_draining || !is_last(tables, i);
	if (section.is_draining)
		drop_claims(table);
	if (!is_former || lives(&section, table, plan->now_ns))
		status = add(plan, &section, table->header, error);
	return status == WEIR_OK && is_larger ? add(plan, &larger, NULL, error) : status;
}

static int plan_all(struct plan *plan, struct store_tables *tables, struct weir_error *error)
{
	struct section first = {.capacity = plan->capacity, .size = section_size(plan->capacity, 0)};
	int status = add(plan, &first, NULL, error);

	for (size_t i = 0; status == WEIR_OK && i < tables->count; i++)
		status = plan_table(plan, tables, i, error);
	return status;
}

static int write_all(int fd, const char *path, const char *from, size_t size, uint64_t offset,
                     struct weir_error *error)
{
	while (size > 0) {
		ssize_t done = pwrite(fd, from, size, (off_t)offset);

		if (done < 0 && errno != EINTR)
			return fail(error, path, "cannot write to it");
		done = done < 0 ? 0 : done;
		from += done;
		offset += (uint64_t)done;
		size -= (size_t)done;
	}
	return WEIR_OK;
}

/* Cells and rows; the new file is zero where nothing is written. */
static int copy(int fd, const char *path, const struct part *part, uint64_t offset,
                struct weir_error *error)
{
	static const char zeros[PAGE];
	const char *from = (const char *)part->from;
	int status = WEIR_OK;

	for (uint64_t at = sizeof *part->from; status == WEIR_OK && at < part->section.size; at += PAGE)
		if (memcmp(from + at, zeros, PAGE) != 0)
			status = write_all(fd, path, from + at, PAGE, offset + at, error);
	return status;
}

/* The new header takes over what the old one, `store`, says about the whole file. */
static void make_header(const struct plan *plan, const struct part *part,
                        const struct table_header *store, struct table_header *header)
{
	memset(header, 0, sizeof *header);
	section_format(header, &part->section, &store->secret);
	if (part == plan->parts) {
		header->clock = store->clock;
		header->recorded_ns = store->recorded_ns;
		header->end = plan->size;
	}
	if (part->from) {
		header->evictions = part->from->evictions;
		header->claims = part->from->claims;
		header->is_former = part->from->is_former || part->section.is_draining;
	}
}

/* For its owner alone until then, since the secret is in it. */
static int give_to(int fd, const char *path, const struct stat *old, struct weir_error *error)
{
	struct stat fresh;

	if (fstat(fd, &fresh) != 0)
		return fail(error, path, "cannot look at it");
	if ((fresh.st_uid != old->st_uid || fresh.st_gid != old->st_gid) &&
	    fchown(fd, old->st_uid, old->st_gid) != 0)
		return fail(error, path, "cannot give it the owner and group of the old file");
	if (fchmod(fd, old->st_mode & 07777) != 0)
		return fail(error, path, "cannot give it the mode of the old file");
	return WEIR_OK;
}

static int write_file(int fd, const char *path, const struct plan *plan,
                      const struct table_header *store, const struct stat *old,
                      struct weir_error *error)
{
	struct table_header header;
	uint64_t offset = 0;
	int status = file_resize(fd, path, plan->size, error);

	for (size_t i = 0; status == WEIR_OK && i < plan->count; i++) {
		const struct part *part = &plan->parts[i];

		make_header(plan, part, store, &header);
		status = file_write_header(fd, path, offset, &header, error);
		if (status == WEIR_OK && part->from)
			status = copy(fd, path, part, offset, error);
		offset += part->section.size;
	}
	if (status == WEIR_OK)
		status = give_to(fd, path, old, error);
	if (status == WEIR_OK && fsync(fd) != 0)
		status = fail(error, path, "cannot write it to its disk");
	return status;
}

static int sync_directory(const char *path, struct weir_error *error)
{
	char *copy = strdup(path);
	int fd = copy ? open(dirname(copy), O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;
	int status = fd >= 0 && fsync(fd) == 0
	                 ? WEIR_OK
	                 : fail(error, path, "enlarged, but cannot write its directory to the disk");

	if (fd >= 0)
		close(fd);
	free(copy);
	return status;
}

static int replace(int old_fd, const char *path, const char *fresh, const struct plan *plan,
                   const struct table_header *store, struct weir_error *error)
{
	struct stat old;
	int fd, status;

	if (fstat(old_fd, &old) != 0)
		return fail(error, path, "cannot look at it");
	if (old.st_nlink != 1)
		return error_set(
		    error, WEIR_EINVAL,
		    "%.120s: expected a file of one name, found %llu (hard links), which would "
		    "lead to different files",
		    path, (unsigned long long)old.st_nlink);
	if (unlink(fresh) != 0 && errno != ENOENT) /* of one that was killed */
		return fail(error, fresh, "cannot remove it");
	fd = open(fresh, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (fd < 0)
		return fail(error, fresh, "cannot make it");
	status = write_file(fd, fresh, plan, store, &old, error);
	if (status == WEIR_OK && !file_is_at(old_fd, path))
		status = error_set(error, WEIR_EIO,
		                   "%.120s: expected the file that was opened, found another", path);
	if (status == WEIR_OK && rename(fresh, path) != 0)
		status = fail(error, path, "cannot put the larger file in its place");
	if (status != WEIR_OK)
		unlink(fresh);
	close(fd);
	return status == WEIR_OK ? sync_directory(path, error) : status;
}

int store_resize(int fd, const char *path, struct store_tables *tables, uint64_t capacity,
                 uint64_t now_ns, struct weir_error *error)
{
	struct plan *plan = calloc(1, sizeof *plan);
	char *fresh = NULL;
	int status;

	if (!plan || asprintf(&fresh, "%s.resizing", path) < 0) {
		free(plan);
		return error_set(error, WEIR_ENOMEM, "out of memory");
	}
	plan->path = path;
	plan->capacity = capacity;
	plan->now_ns = now_ns;
	status = plan_all(plan, tables, error);
	if (status == WEIR_OK)
		status = replace(fd, path, fresh, plan, tables->found[0].table.header, error);
	free(fresh);
	free(plan);
	return status;
}
