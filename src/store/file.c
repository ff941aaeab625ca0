/*
 * file.c: creates, opens, checks, locks and extends the file of a store: shared memory in which
 * several processes count the same limits. The file is a list of *sections*, one table each.
 */
#include "store/file.h"

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "base/number.h"
#include "base/os/new_file.h"
#include "base/os/os.h"
#include "base/text/store_url.h"
#include "store/section.h"

/* Sets the error of a failed system call, from errno, and returns its status. */
static int fail(struct weir_error *error, const char *path, const char *what)
{
	int status = errno == ENOENT ? WEIR_ENOTFOUND : WEIR_EIO;

	return error_set(error, status, "%.120s: %s: %m", path, what);
}

/*
 * Checks owner and mode: a user who may write the file can change its counts at will, and the owner
 * can permit that to anybody.
 */
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
		                 "%.120s: owner: expected user %u%s or root, found user %u", path,
		                 geteuid(), more, stat->st_uid);
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
		return fail(error, path, "cannot read its status");
	if (!S_ISREG(stat.st_mode))
		return error_set(error, WEIR_EINVAL, "%.120s: expected a regular file, found another kind",
		                 path);
	return access == FILE_SHARED ? check_trust(&stat, path, trust, error) : WEIR_OK;
}

/* Shows the URL without its password. */
static int refuse_url(const char *path, struct weir_error *error)
{
	char found[STORE_URL_SHOWN_MAX];

	store_url_redact(path, found);
	return error_set(error, WEIR_EINVAL, "expected the path of a file, found a URL: '%s'", found);
}

int file_open(const char *path, enum file_access access, const struct file_trust *trust, int *out,
              struct weir_error *error)
{
	/* Do not wait for the writer of a pipe, and do not get a controlling terminal. */
	int flags = O_CLOEXEC | O_NONBLOCK | O_NOCTTY, status;

	/* Before any message that contains the path: a URL may have a password. */
	if (store_url_is_likely(path))
		return refuse_url(path, error);
	/* A symbolic link of another user could lead to another store of ours. */
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

/* Maps the whole file. With FILE_PRIVATE, changes stay in this process. */
int file_map(int fd, const char *path, enum file_access access, struct file_map *out,
             struct weir_error *error)
{
	struct stat stat;

	if (fstat(fd, &stat) != 0)
		return fail(error, path, "cannot read its status");
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

/* Whether RLIMIT_FSIZE permits the size. Growing beyond it raises a signal instead of an error. */
static bool is_size_permitted(uint64_t size)
{
	struct rlimit most;

	return getrlimit(RLIMIT_FSIZE, &most) != 0 || most.rlim_cur == RLIM_INFINITY ||
	       size <= most.rlim_cur;
}

/*
 * Sets the file's length, and allocates disk space from byte `from` on. Without that a full disk
 * would raise a signal at a later write. Returns 0 or an errno.
 */
static int allocate_space(int fd, uint64_t from, uint64_t size)
{
	struct statvfs disk;
	int failed;

	if (size > INT64_MAX || !is_size_permitted(size))
		return EFBIG;
	/* If the disk has too little space, don't use up the rest, not even for a moment. */
	if (from < size && fstatvfs(fd, &disk) == 0 && disk.f_blocks > 0 &&
	    (size - from) / disk.f_frsize > disk.f_bfree)
		return ENOSPC;
	if (ftruncate(fd, (off_t)size) != 0)
		return errno;
	do
		failed = from < size ? posix_fallocate(fd, (off_t)from, (off_t)(size - from)) : 0;
	while (failed == EINTR);
	return failed;
}

/* Sets the error of allocate_space(), which returned `failed`, an errno. */
static int fail_for_space(int fd, const char *path, uint64_t bytes, int failed,
                          struct weir_error *error)
{
	struct statvfs disk = {0};
	char wanted[SIZE_TEXT_MAX], found[SIZE_TEXT_MAX];

	errno = failed;
	format_size(wanted, bytes, true);
	if (failed != ENOSPC && failed != EDQUOT && failed != EFBIG)
		return error_set(error, WEIR_EIO, "%.120s: cannot reserve space: %m", path);
	if (failed == EFBIG)
		return error_set(
		    error, WEIR_EFULL,
		    "%.120s: expected permission for %s more (RLIMIT_FSIZE, file system), found none", path,
		    wanted);
	fstatvfs(fd, &disk);
	format_size(found, (uint64_t)disk.f_bavail * disk.f_frsize, false);
	return error_set(error, WEIR_EFULL, "%.120s: expected space for %s more on its disk, found %s",
	                 path, wanted, found);
}

int file_write_header(int fd, const char *path, uint64_t offset, const struct table_header *header,
                      struct weir_error *error)
{
	if (pwrite(fd, header, sizeof *header, (off_t)offset) == (ssize_t)sizeof *header)
		return WEIR_OK;
	return fail(error, path, "cannot write to it");
}

static int write_section(int fd, const char *path, uint64_t offset, const struct section *section,
                         const struct hash_key *secret, struct weir_error *error)
{
	struct table_header header = {0};

	section_format(&header, section, secret);
	if (offset == 0)
		header.end = section->size;
	return file_write_header(fd, path, offset, &header, error);
}

/* Gives the file to `group`, mode 0660, unless that is 0. The mode is 0600 before. */
static int set_group(int fd, uint64_t group)
{
	struct stat stat;

	if (group == 0)
		return 0;
	if (fstat(fd, &stat) != 0)
		return errno;
	/* Often the group is right already, and a service may lack permission to change it. */
	if (stat.st_gid != group && fchown(fd, (uid_t)-1, (gid_t)group) != 0)
		return errno;
	return fchmod(fd, 0660) != 0 ? errno : 0;
}

/* Writes and syncs the file before it is linked, so that after a power loss it is complete or
 * absent. */
static int fill_new_file(int fd, const char *path, const struct section *first,
                         const struct hash_key *secret, uint64_t group, struct weir_error *error)
{
	int failed = set_group(fd, group), status;

	errno = failed;
	if (failed)
		return fail(error, path, "cannot give it to its group");
	failed = allocate_space(fd, 0, first->size);
	if (failed)
		return fail_for_space(fd, path, first->size, failed, error);
	status = write_section(fd, path, 0, first, secret, error);
	if (status == WEIR_OK && fsync(fd) != 0)
		status = fail(error, path, "cannot write it to its disk");
	return status;
}

int file_create(const char *path, uint64_t capacity, const struct hash_key *secret, uint64_t group,
                struct weir_error *error)
{
	struct section first = {.capacity = capacity, .size = section_size(capacity, 0)};
	struct new_file file;
	int status;

	if (!new_file_open(&file, path))
		return errno == ENOMEM ? error_set(error, WEIR_ENOMEM, "out of memory")
		                       : error_set(error, WEIR_EIO, "%.120s: cannot make it: %m", path);
	status = fill_new_file(file.fd, path, &first, secret, group, error);
	if (status == WEIR_OK && !new_file_link(&file))
		status = error_set(error, WEIR_EIO, "%.120s: cannot make it: %m", path);
	new_file_close(&file);
	return status;
}

/* After 5 s without the lock give up: a process that holds it may be stopped. */
#define LOCK_TRIES   500
#define LOCK_WAIT_NS (10 * NS_PER_MS)

int file_lock_sections(int fd, const char *path, struct weir_error *error)
{
	const struct timespec wait = {0, LOCK_WAIT_NS};

	for (int i = 0; i < LOCK_TRIES; i++) {
		if (flock(fd, LOCK_EX | LOCK_NB) == 0)
			return WEIR_OK;
		if (errno != EWOULDBLOCK && errno != EINTR)
			return fail(error, path, "cannot lock it");
		nanosleep(&wait, NULL);
	}
	return error_set(error, WEIR_EIO,
	                 "%.120s: expected to lock the file, found it locked by another process for "
	                 "seconds",
	                 path);
}

/* Closing would not suffice, since a child of a fork may have the descriptor, too. */
void file_unlock_sections(int fd)
{
	flock(fd, LOCK_UN);
}

/*
 * Sets the lock that shows the file's use. It is apart from the lock of file_lock_sections, which
 * users of the file take one after the other. It belongs to the open file and not to the process,
 * so a library that opens the same file twice does not lose it.
 */
static int set_use_lock(int fd, short type)
{
	struct flock use = {.l_type = type, .l_whence = SEEK_SET, .l_len = 1};

	return fcntl(fd, F_OFD_SETLK, &use);
}

bool file_is_exclusive(int fd)
{
	struct flock use = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_len = 1};

	return fcntl(fd, F_OFD_GETLK, &use) == 0 && use.l_type == F_UNLCK;
}

static bool is_lock_taken(void)
{
	return errno == EAGAIN || errno == EACCES || errno == EINTR;
}

int file_lock_shared(int fd, const char *path, struct weir_error *error)
{
	const struct timespec wait = {0, LOCK_WAIT_NS};

	for (int i = 0; i < LOCK_TRIES; i++) {
		if (set_use_lock(fd, F_RDLCK) == 0)
			return WEIR_OK;
		if (!is_lock_taken())
			return fail(error, path, "cannot lock it");
		nanosleep(&wait, NULL);
	}
	return error_set(error, WEIR_EIO,
	                 "%.120s: expected a file that can be used, found that `weir store` has had it "
	                 "for seconds",
	                 path);
}

int file_lock_exclusive(int fd, const char *path, struct weir_error *error)
{
	if (set_use_lock(fd, F_WRLCK) == 0)
		return WEIR_OK;
	if (!is_lock_taken())
		return fail(error, path, "cannot lock it");
	return error_set(
	    error, WEIR_EIO,
	    "%.120s: expected a file that nobody uses, found that a server or another program "
	    "has it open: stop all that use it",
	    path);
}

bool file_is_at(int fd, const char *path)
{
	struct stat opened, there;

	return fstat(fd, &opened) == 0 && lstat(path, &there) == 0 && opened.st_dev == there.st_dev &&
	       opened.st_ino == there.st_ino;
}

int file_read_header(int fd, const char *path, uint64_t offset, struct table_header *out,
                     struct weir_error *error)
{
	ssize_t got = pread(fd, out, sizeof *out, (off_t)offset);

	if (got < 0)
		return fail(error, path, "cannot read it");
	memset((char *)out + got, 0, sizeof *out - (size_t)got);
	return WEIR_OK;
}

int file_size(int fd, const char *path, uint64_t *out, struct weir_error *error)
{
	struct stat stat;

	if (fstat(fd, &stat) != 0)
		return fail(error, path, "cannot read its status");
	*out = (uint64_t)stat.st_size;
	return WEIR_OK;
}

int file_map_part(int fd, const char *path, uint64_t offset, size_t size, void **out,
                  struct weir_error *error)
{
	*out = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_SHARED, fd, (off_t)offset);
	return *out == MAP_FAILED ? fail(error, path, "cannot map it") : WEIR_OK;
}

/* Writes and syncs the headers of sections from byte `end` on. Then writes the first header's
 * `end`, which makes them valid. */
static int write_sections(int fd, const char *path, uint64_t end, const struct file_sections *added,
                          struct weir_error *error)
{
	int status = WEIR_OK;

	for (size_t i = 0; status == WEIR_OK && i < added->count; i++) {
		status = write_section(fd, path, end, &added->sections[i], added->secret, error);
		end += added->sections[i].size;
	}
	if (status == WEIR_OK &&
	    (fsync(fd) != 0 ||
	     pwrite(fd, &end, sizeof end, offsetof(struct table_header, end)) != sizeof end))
		status = fail(error, path, "cannot write to it");
	return status;
}

/* If this fails, the next process that adds sections does it. */
static void cut_off_if_possible(int fd, uint64_t size)
{
	int ignored = ftruncate(fd, (off_t)size);

	(void)ignored;
}

/* Extends the file by sections from byte `end` on: all of them, or none. */
int file_add_sections(int fd, const char *path, uint64_t end, const struct file_sections *added,
                      struct weir_error *error)
{
	uint64_t size = end;
	int status = WEIR_OK, failed;

	for (size_t i = 0; i < added->count; i++)
		size += added->sections[i].size;
	if (ftruncate(fd, (off_t)end) != 0) /* remove what a process that died has begun there */
		return fail(error, path, "cannot change its size");
	failed = allocate_space(fd, end, size);
	status = failed ? fail_for_space(fd, path, size - end, failed, error)
	                : write_sections(fd, path, end, added, error);
	if (status != WEIR_OK)
		cut_off_if_possible(fd, end);
	return status;
}

/*
 * For `weir store`, which cuts off what is behind the last section, replaces what a damaged file
 * lacks, and makes files larger. Allocates the space of holes, too.
 */
int file_resize(int fd, const char *path, uint64_t size, struct weir_error *error)
{
	uint64_t before;
	int failed, status = file_size(fd, path, &before, error);

	if (status != WEIR_OK)
		return status;
	/* Drop half a cell at the end of the file: zeros behind it would make a wrong cell of it. */
	before -= before % sizeof(struct cell);
	if (before < size && ftruncate(fd, (off_t)before) != 0)
		return fail(error, path, "cannot change its size");
	failed = allocate_space(fd, 0, size);
	return failed ? fail_for_space(fd, path, sat_sub(size, before), failed, error) : WEIR_OK;
}

void file_record_time(const struct table *table, uint64_t now_ns)
{
	clock_raise(&table->header->recorded_ns, now_ns);
}

/*
 * Stores the offset in the file, unless that has a greater one of this boot. Returns the greater.
 * header->clock has the id of the boot, and the offset.
 */
static uint64_t share_offset(const struct table *table, uint64_t boot, uint64_t offset_ns)
{
	struct cell *clock = &table->header->clock;

	for (;;) {
		struct cell before = cell_load(clock, table->load_is_atomic);
		uint64_t shared_ns = before.high;

		if (before.low == boot && (int64_t)(shared_ns - offset_ns) >= 0)
			return shared_ns;
		if (cell_swap(clock, before, (struct cell){boot, offset_ns}))
			return offset_ns;
	}
}

/*
 * Opens the clock that all processes with the file share: the monotonic clock plus an offset, at
 * first that of the wall clock. The offset is the greatest that any of them has needed since the
 * boot, so the clock never goes back, nor behind the last time that the file has recorded.
 */
struct clock file_open_clock(const struct table *table)
{
	struct table_header *header = table->header;
	uint64_t boot = os_boot_id(), offset_ns = clock_offset();
	uint64_t now_ns = os_monotonic_ns() + offset_ns;
	uint64_t recorded_ns = __atomic_load_n(&header->recorded_ns, __ATOMIC_RELAXED);
	const bool by_counter = true;
	struct clock mine;

	if (recorded_ns > now_ns)
		offset_ns += recorded_ns - now_ns;
	/* If the boot is not known, leave the clock as other programs, which know it, have set it. */
	if (boot != 0)
		offset_ns = share_offset(table, boot, offset_ns);
	mine = clock_start(offset_ns, by_counter);
	mine.recorded_ns = &header->recorded_ns;
	file_record_time(table, clock_now(&mine));
	return mine;
}
