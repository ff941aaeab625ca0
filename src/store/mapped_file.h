/*
 * mapped_file.h: a store in a file, to which other processes add sections, too.
 *
 * Sections are added, and looked for, by whoever has the file locked. What was mapped stays
 * as it was found: nothing that others may write is asked twice.
 */
#ifndef STORE_MAPPED_FILE_H
#define STORE_MAPPED_FILE_H

#include <sys/types.h>

#include "store/file.h"
#include "store/memory.h"

/* The file's identity, to find it again, and the part of it that is mapped. */
struct mapped_file {
	struct file_trust trust;
	dev_t device;
	ino_t inode;
	int fd;       /* by which others know that it is in use; closed with the store */
	uint64_t end; /* of the sections that are mapped; who changes it has locked the file */
	char path[];
};

/**
 * Maps all that is in a file that was opened, into a zeroed store, which has `fd` from then on.
 * Errors: as weir_table_open; `fd` is the store's, or closed.
 */
int mapped_file_open(struct memory *store, int fd, const struct weir_table_options *options,
                     struct weir_error *error);

/**
 * Opens the store's file anew, locked, and maps what others have added. Errors: EIO (it is
 * not where it was, or another), EINVAL (it is damaged). Then mapped_file_unlock.
 */
int mapped_file_lock(struct memory *store, int *fd, struct weir_error *error);
void mapped_file_unlock(int fd);

/** Adds sections to the locked file, all or none, and maps them. Errors: EIO, EFULL, ENOMEM. */
int mapped_file_add_sections(struct memory *store, int fd, const struct section *fresh, size_t n,
                             struct weir_error *error);

#endif
