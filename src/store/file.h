/*
 * file.h: creates, opens, checks, locks and extends the file of a store, which any number of
 * processes may map.
 *
 * A new file is written under another name and linked to its path when it is complete. So a process
 * never finds half a file, and if two processes create it at once, one uses the other's.
 *
 * The path may be in a directory where other users create files. So owner and mode are checked on
 * the open descriptor, and that descriptor is used from then on, not the path.
 */
#ifndef STORE_FILE_H
#define STORE_FILE_H

#include <weir/weir.h>

#include "base/hash.h"
#include "base/time/clock.h"
#include "store/section.h"
#include "table/table.h"

/* A mapped file. If another process shortens the file, access to the lost bytes raises SIGBUS. */
struct file_map {
	void *memory;
	size_t size;
};

enum file_access {
	FILE_PRIVATE, /* changes are not written to the file */
	FILE_SHARED,
};

/* The users who may own or write a file, besides root and the process's own (effective) user. */
struct file_trust {
	uint64_t owner; /* the id of another user who may own it, or 0 */
	uint64_t group; /* the id of a group that may write it, or 0 */
};

/**
 * Opens a regular file. FILE_SHARED opens it for writing, and demands that the path is no symbolic
 * link, that the owner is trusted, and that nobody else may write it. `trust` may be NULL. Errors
 * (with the path): ENOTFOUND, EINVAL (another kind of file, or not trusted), EIO.
 */
int file_open(const char *path, enum file_access access, const struct file_trust *trust, int *out,
              struct weir_error *error);

/**
 * Maps a file of file_open. The descriptor may be closed then. `path` is for errors: EINVAL
 * (smaller than a table's header), EIO. Unmap with os_pages_unmap.
 */
int file_map(int fd, const char *path, enum file_access access, struct file_map *out,
             struct weir_error *error);

/**
 * Creates the file of a new store with its table of one-word states, and allocates its disk space.
 * Only its owner and `group` (unless 0) may read and write it. Succeeds also if another process has
 * created the file meanwhile. Errors: EIO, EFULL (no disk space), ENOMEM.
 */
int file_create(const char *path, uint64_t capacity, const struct hash_key *secret, uint64_t group,
                struct weir_error *error);

/**
 * Locks the file against other processes that add sections or search for them, until
 * file_unlock_sections or the end of this process. Errors: EIO (another process did not release the
 * lock for 5 s).
 */
int file_lock_sections(int fd, const char *path, struct weir_error *error);
void file_unlock_sections(int fd);

/**
 * Takes a shared lock, which shows other processes that the file is in use, until `fd` and its
 * copies in child processes are closed. Errors: EIO (a process had the exclusive lock for 5 s).
 */
int file_lock_shared(int fd, const char *path, struct weir_error *error);
/** Whether no other open file has a shared lock now. */
bool file_is_exclusive(int fd);
/** Takes the exclusive lock, until `fd` is closed. Errors: EIO (another process uses the file). */
int file_lock_exclusive(int fd, const char *path, struct weir_error *error);
/** Whether the path leads to this file. */
bool file_is_at(int fd, const char *path);

/** Reads the header at `offset`, with zeros beyond the end of the file. Errors: EIO. */
int file_read_header(int fd, const char *path, uint64_t offset, struct table_header *out,
                     struct weir_error *error);

/** Gets the length of the file. Errors: EIO. */
int file_size(int fd, const char *path, uint64_t *out, struct weir_error *error);

/** Maps a part of the file, shared. Errors: EIO. Unmap with os_pages_unmap. */
int file_map_part(int fd, const char *path, uint64_t offset, size_t size, void **out,
                  struct weir_error *error);

/* Sections to be added to a file. */
struct file_sections {
	const struct section *sections;
	size_t count;
	const struct hash_key *secret; /* the store's */
};

/**
 * Adds sections at byte `end` of the locked file, all or none, and allocates their disk space.
 * Overwrites bytes there, which a process that died while it added sections has left. Errors: EIO,
 * EFULL.
 */
int file_add_sections(int fd, const char *path, uint64_t end, const struct file_sections *added,
                      struct weir_error *error);

/** Sets the length of the file, and allocates its disk space. Errors: EIO, EFULL. */
int file_resize(int fd, const char *path, uint64_t size, struct weir_error *error);

/** Writes one header. Errors: EIO. */
int file_write_header(int fd, const char *path, uint64_t offset, const struct table_header *header,
                      struct weir_error *error);

/**
 * Opens the clock that all processes with the file share, and which never goes back. While the
 * system runs, it is the monotonic clock plus an offset in the file; a wall clock that is ahead of
 * it moves the offset forward. After a boot it continues from the wall clock, or from the last
 * recorded time if the wall clock is behind that.
 */
struct clock file_open_clock(const struct table *table);

/** Records in the file that its clock has reached `now_ns`. */
void file_record_time(const struct table *table, uint64_t now_ns);

#endif
