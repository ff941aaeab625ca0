/*
 * file.h: a table in a file that any number of processes map.
 *
 * A new file is made under another name and linked into place whole, so whoever
 * finds one finds a table, and of two who make it at once one takes the other's.
 *
 * A path may lie where others make files, too, so what is found there is judged once
 * it is open, and what was judged is used: never what the path leads to later.
 */
#ifndef STORE_FILE_H
#define STORE_FILE_H

#include <weir/weir.h>

#include "base/hash.h"
#include "base/time/clock.h"
#include "store/section.h"
#include "table/table.h"

/* A file's bytes. Somebody who shortens it meanwhile kills whoever touches them (SIGBUS). */
struct file_map {
	void *memory;
	size_t size;
};

enum file_access {
	FILE_PRIVATE, /* what is written stays here */
	FILE_SHARED,
};

/* Users and groups by their numbers, beside root and the process's own (effective) user. */
struct file_trust {
	uint64_t owner; /* the user whose file is accepted; 0 if it is nobody else's */
	uint64_t group; /* the group whose members may write it, or 0 */
};

/**
 * Opens a regular file; `*error` names it. FILE_SHARED is for writing: the path is no
 * symbolic link, the file's owner is trusted, nobody else may write it. `trust` may be NULL.
 * Errors: ENOTFOUND, EINVAL (another kind of file, not to be trusted), EIO.
 */
int file_open(const char *path, enum file_access access, const struct file_trust *trust, int *out,
              struct weir_error *error);

/**
 * Maps a file of file_open, which may be closed then; `path` is for errors. Errors:
 * EINVAL (smaller than a table's header), EIO. Unmap with os_pages_unmap.
 */
int file_map(int fd, const char *path, enum file_access access, struct file_map *out,
             struct weir_error *error);

/**
 * Makes the file of a new store, its table of one-word states with its room on the disk.
 * Its owner alone may read and write it, and `group` (0: none). When there is one
 * meanwhile, that is success too. Errors: EIO, EFULL (no room on the disk), ENOMEM.
 */
int file_create(const char *path, uint64_t capacity, const struct hash_key *secret, uint64_t group,
                struct weir_error *error);

/**
 * Keeps all others from adding sections, or from looking for them, until file_unlock_sections, or
 * until this process ends. Errors: EIO (another did not let go of it for seconds).
 */
int file_lock_sections(int fd, const char *path, struct weir_error *error);
void file_unlock_sections(int fd);

/**
 * Says that this process uses the file, until `fd` and what a fork made of it are closed. Errors:
 * EIO (somebody has it alone, for seconds).
 */
int file_lock_shared(int fd, const char *path, struct weir_error *error);
/** Whether nobody but this open file uses it now. */
bool file_is_exclusive(int fd);
/** Has the file alone, until `fd` is closed. Errors: EIO (others use it). */
int file_lock_exclusive(int fd, const char *path, struct weir_error *error);
/** Whether the path leads to this file. */
bool file_is_at(int fd, const char *path);

/** The header at `offset`, zeros beyond the end of the file. Errors: EIO. */
int file_read_header(int fd, const char *path, uint64_t offset, struct table_header *out,
                     struct weir_error *error);

/** How long the file is. Errors: EIO. */
int file_size(int fd, const char *path, uint64_t *out, struct weir_error *error);

/** Maps a part of the file to be shared. Errors: EIO. Unmap with os_pages_unmap. */
int file_map_part(int fd, const char *path, uint64_t offset, size_t size, void **out,
                  struct weir_error *error);

/* Sections to be added to a file. */
struct file_sections {
	const struct section *all;
	size_t n;
	const struct hash_key *secret; /* the store's */
};

/**
 * Adds sections behind byte `end` of the locked file, all or none, with their room on the
 * disk; bytes that lie there belong to no one. Errors: EIO, EFULL.
 */
int file_add_sections(int fd, const char *path, uint64_t end, const struct file_sections *fresh,
                      struct weir_error *error);

/** Makes the file as long as that, with its room on the disk. Errors: EIO, EFULL. */
int file_resize(int fd, const char *path, uint64_t size, struct weir_error *error);

/** Writes one header. Errors: EIO. */
int file_write_header(int fd, const char *path, uint64_t offset, const struct table_header *header,
                      struct weir_error *error);

/**
 * One clock for all who have the file open, and one that never goes back. As
 * long as the system runs its monotonic clock is everybody's, and the file keeps
 * what to add to it; a wall that is ahead of that moves it forward. After a boot
 * it goes on from the wall, or from the last time seen if the wall is behind.
 */
struct clock file_open_clock(const struct table *table);

/** Keeps in the file that its clock has said `now_ns`. */
void file_record_time(const struct table *table, uint64_t now_ns);

#endif
