#include "store/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/number.h"
#include "base/os.h"
#include "store/section.h"

static int fail(struct weir_error *error, const char *path, const char *what)
{
	int status = errno == ENOENT ? WEIR_ENOTFOUND : WEIR_EIO;

	return error_set(error, status, "%.120s: %s: %m", path, what);
}

/* Those who may write a file can make of its counts what they like, and its owner can let them. */
static int check_trust(const struct stat *stat, const char *path, const struct file_trust *trust,
                       struct weir_error *error)
{
	static const struct file_trust nobody;
	unsigned mode = stat->st_mode & 07777;
	char more[32] = "";

	trust = trust ? trust : &nobody;
	if (trust->owner)
		snprintf(more, sizeof more, ", %llu", (unsigned long long)trust->owner);
	if (stat->st_uid != 0 && stat->st_uid != geteuid() && stat->st_uid != trust->owner)
		return error_set(error, WEIR_EINVAL,
		                 "%.120s: owner: expected user %u%s or root, found user %u", path, geteuid(),
		                 more, stat->st_uid);
	if (mode & S_IWOTH)
		return error_set(error, WEIR_EINVAL,
		                 "%.120s: mode: expected no right to write for others, found %04o", path,
		                 mode);
	if ((mode & S_IWGRP) && (trust->group == 0 || stat->st_gid != trust->group))
		return error_set(error, WEIR_EINVAL,
		                 "%.120s: mode: expected no right to write for group %u, found %04o", path,
		                 stat->st_gid, mode);
	return WEIR_OK;
}

static int check_file(int fd, const char *path, enum file_access access,
                      const struct file_trust *trust, struct weir_error *error)
{
	struct stat stat;

	if (fstat(fd, &stat) != 0)
		return fail(error, path, "cannot look at it");
	if (!S_ISREG(stat.st_mode))
		return error_set(error, WEIR_EINVAL, "%.120s: expected a regular file, found another kind",
		                 path);
	return access == FILE_SHARED ? check_trust(&stat, path, trust, error) : WEIR_OK;
}

int file_open(const char *path, enum file_access access, const struct file_trust *trust, int *out,
              struct weir_error *error)
{
	/* Neither wait for who is at a pipe's other end, nor make a terminal ours. */
	int flags = O_CLOEXEC | O_NONBLOCK | O_NOCTTY, status;

	/* A link that somebody else has put there would lead to another file of ours. */
	*out = open(path, flags | (access == FILE_SHARED ? O_RDWR | O_NOFOLLOW : O_RDONLY));
	if (*out < 0 && errno == ELOOP)
		return error_set(error, WEIR_EINVAL,
		                 "%.120s: expected a regular file, found a symbolic link", path);
	if (*out < 0)
		return fail(error, path, "cannot open it");
	status = check_file(*out, path, access, trust, error);
	if (status != WEIR_OK)
		close(*out);
	return status;
}

int file_map(int fd, const char *path, enum file_access access, struct file_map *out,
             struct weir_error *error)
{
	struct stat stat;

	if (fstat(fd, &stat) != 0)
		return fail(error, path, "cannot look at it");
	if (stat.st_size < (off_t)sizeof(struct table_header))
		return error_set(error, WEIR_EINVAL,
		                 "%.120s: size: expected a header of %zu bytes, found %lld", path,
		                 sizeof(struct table_header), (long long)stat.st_size);
	out->size = (size_t)stat.st_size;
	out->memory = mmap(NULL, out->size, PROT_READ | PROT_WRITE,
	                   access == FILE_SHARED ? MAP_SHARED : MAP_PRIVATE | MAP_NORESERVE, fd, 0);
	if (out->memory == MAP_FAILED)
		return fail(error, path, "cannot map it");
	return WEIR_OK;
}

/*
 * Room that is missing is found here, not by a signal at some later write. That is
 * said of the one-word states alone: most stores leave most of the others unused.
 */
static int make_room(int fd, uint64_t capacity)
{
	if (ftruncate(fd, (off_t)section_store_size(capacity)) != 0)
		return errno;
	return posix_fallocate(fd, 0, (off_t)table_size(capacity));
}

static int write_headers(int fd, uint64_t capacity, const struct hash_key *secret)
{
	struct table_header *header = malloc(sizeof *header);
	int failed = header ? 0 : ENOMEM;

	for (unsigned width = 0; !failed && width < ALGO_WIDTHS; width++) {
		off_t offset = (off_t)section_of(capacity, width).offset;
		ssize_t written;

		memset(header, 0, sizeof *header);
		section_format(header, capacity, width, secret);
		written = pwrite(fd, header, sizeof *header, offset);
		if (written != (ssize_t)sizeof *header)
			failed = written < 0 ? errno : ENOSPC;
	}
	free(header);
	return failed;
}

/* Made for its owner alone, since the secret is in it. */
static int let_group_in(int fd, uint64_t group)
{
	if (group == 0)
		return 0;
	return fchown(fd, (uid_t)-1, (gid_t)group) != 0 || fchmod(fd, 0660) != 0 ? errno : 0;
}

/* On the disk before it has its name: after a power loss it is there whole or not at all. */
static int fill(int fd, uint64_t capacity, const struct hash_key *secret, uint64_t group)
{
	int failed = let_group_in(fd, group);

	if (!failed)
		failed = make_room(fd, capacity);
	if (!failed)
		failed = write_headers(fd, capacity, secret);
	if (!failed && fsync(fd) != 0)
		failed = errno;
	return failed;
}

int file_create(const char *path, uint64_t capacity, const struct hash_key *secret, uint64_t group,
                struct weir_error *error)
{
	char *fresh;
	int fd, failed;

	if (asprintf(&fresh, "%s.XXXXXX", path) < 0)
		return error_set(error, WEIR_ENOMEM, "out of memory");
	fd = mkostemp(fresh, O_CLOEXEC); /* mode 0600 */
	failed = fd < 0 ? errno : 0;
	if (!failed) {
		failed = fill(fd, capacity, secret, group);
		if (!failed && link(fresh, path) != 0 && errno != EEXIST)
			failed = errno;
		unlink(fresh);
		close(fd);
	}
	free(fresh);
	errno = failed;
	return failed ? error_set(error, WEIR_EIO, "%.120s: cannot make it: %m", path) : WEIR_OK;
}

/* What is behind its end goes, what was missing is empty cells, and headers to be made. */
static int resize(int fd, uint64_t capacity)
{
	struct stat stat;

	if (fstat(fd, &stat) != 0)
		return errno;
	/* Half a cell would be another cell. */
	if (ftruncate(fd, stat.st_size / (off_t)sizeof(struct cell) * (off_t)sizeof(struct cell)) != 0)
		return errno;
	return make_room(fd, capacity);
}

int file_resize(int fd, const char *path, uint64_t capacity, struct weir_error *error)
{
	int failed = resize(fd, capacity);

	errno = failed;
	return failed ? fail(error, path, "cannot change its size") : WEIR_OK;
}

void file_see(const struct table *table, uint64_t now_ns)
{
	clock_raise(&table->header->seen_ns, now_ns);
}

struct clock file_clock(const struct table *table)
{
	struct table_header *header = table->header;
	uint64_t boot = os_boot_id(), offset_ns = clock_offset();
	uint64_t now_ns = os_monotonic_ns() + offset_ns;
	uint64_t seen = __atomic_load_n(&header->seen_ns, __ATOMIC_RELAXED);
	struct clock mine;

	if (seen > now_ns)
		offset_ns += seen - now_ns;
	for (;;) {
		struct cell before = cell_load(&header->clock, table->load_is_atomic);

		if (boot != 0 && before.low == boot && (int64_t)(before.high - offset_ns) >= 0) {
			offset_ns = before.high;
			break;
		}
		if (cell_swap(&header->clock, before, (struct cell){boot, offset_ns}))
			break;
	}
	mine = clock_start(offset_ns, true);
	mine.seen_ns = &header->seen_ns;
	file_see(table, clock_now(&mine));
	return mine;
}
