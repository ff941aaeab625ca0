/*
 * mapped_file.c: maps the file of a store into memory, section by section (a section has one table
 * of keys), and adds sections to it, under its lock.
 */
#include "store/mapped_file.h"

#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/os/os.h"
#include "store/publish.h"

static void record_first_defect(void *context, const char *text)
{
	struct weir_error *error = context;

	if (error->status == WEIR_OK)
		error_set(error, WEIR_EINVAL, "%s", text);
}

/* Maps the section at walk->offset, and makes its table known to the store. */
static int map_section(struct memory *store, int fd, const struct section_walk *walk,
                       struct weir_error *error)
{
	const struct section *section = &walk->section;
	void *memory;
	int status = WEIR_OK;

	if (walk->offset > 0 && section->identity == 0)
		return WEIR_OK; /* its header was lost, so no limit owns it */
	status = file_map_part(fd, store->file->path, walk->offset, section->size, &memory, error);
	if (status != WEIR_OK)
		return status;
	os_pages_scatter(memory, section->size);
	if (walk->offset > 0)
		return publish_section(store, section, memory, error);
	store->section = *section;
	store->secret = walk->secret;
	table_attach(&store->table, memory, table_sets(section->capacity));
	keyhash_init(&store->hash, &walk->secret);
	return WEIR_OK;
}

/*
 * Sets *end to the end of sections by the first header, which grows as others add sections. A
 * damaged header before that end is an error, because others use its section. If the first header
 * is not the one that was opened, *end is unchanged.
 */
static int find_end(const struct memory *store, int fd, uint64_t size, uint64_t *end,
                    struct weir_error *error)
{
	struct section_walk first = {0};
	int status = file_read_header(fd, store->file->path, 0, &first.header, error);

	if (status != WEIR_OK)
		return status;
	section_check_next(&first, size, NULL, NULL);
	if (!first.is_over && memcmp(&first.secret, &store->secret, sizeof store->secret) == 0)
		*end = first.end;
	return WEIR_OK;
}

/*
 * Maps the sections that were added to the file since the last call: from store->file->end on. The
 * first header says up to where sections exist (walk.end); the walk learns that from it at the
 * first call, and by find_end() at later ones. A section behind that is mapped if it is sound.
 */
static int map_new_sections(struct memory *store, int fd, struct weir_error *error)
{
	struct mapped_file *file = store->file;
	struct section_walk walk = {.offset = file->end, .secret = store->secret};
	struct weir_error inner = {0};
	uint64_t size;
	int status = file_size(fd, file->path, &size, error);

	if (status == WEIR_OK && walk.offset > 0)
		status = find_end(store, fd, size, &walk.end, error);
	while (status == WEIR_OK) {
		status = file_read_header(fd, file->path, walk.offset, &walk.header, error);
		if (status != WEIR_OK)
			break;
		section_check_next(&walk, size, record_first_defect, &inner);
		if (walk.defects > 0)
			return error_set(error, WEIR_EINVAL, "%.120s: %s", file->path, inner.message);
		if (walk.is_over)
			break;
		status = map_section(store, fd, &walk, error);
		if (status != WEIR_OK)
			break;
		walk.offset += walk.section.size;
		file->end = walk.offset;
	}
	return status;
}

/* Locks the sections and maps new ones. Releases the lock again if that fails. */
static int lock_and_map(struct memory *store, int fd, struct weir_error *error)
{
	int status = file_lock_sections(fd, store->file->path, error);

	if (status != WEIR_OK)
		return status;
	status = map_new_sections(store, fd, error);
	if (status != WEIR_OK)
		file_unlock_sections(fd);
	return status;
}

/* Maps the file of `fd`. Even after an error the store owns the descriptor, or it is closed. */
int mapped_file_open(struct memory *store, int fd, const struct weir_table_options *options,
                     struct weir_error *error)
{
	size_t len = strlen(options->path) + 1;
	struct mapped_file *file = calloc(1, sizeof *file + len);
	struct stat stat;
	int status;

	if (!file) {
		close(fd);
		return error_set(error, WEIR_ENOMEM, "out of memory");
	}
	store->file = file;
	file->fd = fd;
	memcpy(file->path, options->path, len);
	store->path = file->path;
	file->trust = (struct file_trust){options->owner, options->group};
	if (fstat(fd, &stat) != 0)
		return error_set(error, WEIR_EIO, "%.120s: cannot read its status: %m", file->path);
	file->device = stat.st_dev;
	file->inode = stat.st_ino;
	if (stat.st_size < (off_t)sizeof(struct table_header))
		return error_set(error, WEIR_EINVAL,
		                 "%.120s: size: expected a header of %zu bytes, found %lld", file->path,
		                 sizeof(struct table_header), (long long)stat.st_size);
	status = lock_and_map(store, fd, error);
	if (status == WEIR_OK)
		file_unlock_sections(fd);
	return status;
}

/*
 * Opens the store's file once more, locks its sections, and maps new ones. The lock belongs to an
 * open file, so the second descriptor excludes not only other processes, but also other threads.
 * It must be the file that was mapped: its path may lead to another one by now.
 */
int mapped_file_lock(struct memory *store, int *fd, struct weir_error *error)
{
	const struct mapped_file *file = store->file;
	struct stat stat;
	int status = file_open(file->path, FILE_SHARED, &file->trust, fd, error);

	if (status != WEIR_OK)
		return status == WEIR_ENOTFOUND
		           ? error_set(error, WEIR_EIO,
		                       "%.120s: expected the file that was opened, found none", file->path)
		           : status;
	if (fstat(*fd, &stat) != 0 || stat.st_dev != file->device || stat.st_ino != file->inode)
		status = error_set(error, WEIR_EIO,
		                   "%.120s: expected the file that was opened, found another", file->path);
	else
		status = lock_and_map(store, *fd, error);
	if (status != WEIR_OK)
		close(*fd);
	return status;
}

void mapped_file_unlock(int fd)
{
	file_unlock_sections(fd);
	close(fd);
}

int mapped_file_add_sections(struct memory *store, int fd, const struct section *fresh, size_t n,
                             struct weir_error *error)
{
	const struct mapped_file *file = store->file;
	struct file_sections sections = {fresh, n, &store->secret};
	int status = file_add_sections(fd, file->path, file->end, &sections, error);

	return status == WEIR_OK ? map_new_sections(store, fd, error) : status;
}
