/*
 * mapped_file.h: maps the sections of a store's file, and adds sections to it.
 *
 * Other processes add sections, too. A process locks the file while it adds sections or searches
 * for new ones. It copies the fields of a header when it maps the section, and uses only the copy
 * then, because other processes can write to the header.
 */
#ifndef STORE_MAPPED_FILE_H
#define STORE_MAPPED_FILE_H

#include <sys/types.h>

#include "store/file.h"
#include "store/memory.h"

/* The file of a store: its identity, to recognize it, and how far it is mapped. */
struct mapped_file {
	struct file_trust trust;
	dev_t device;
	ino_t inode;
	int fd;       /* its shared lock shows others that the file is in use; closed with the store */
	uint64_t end; /* of the mapped sections; changed only under the file's lock */
	char path[];
};

/**
 * Maps all sections of an open file into a zeroed store, which owns `fd` from then on. After an
 * error (as of weir_table_open) `fd` is the store's or closed.
 */
int mapped_file_open(struct memory *store, int fd, const struct weir_table_options *options,
                     struct weir_error *error);

/**
 * Opens the store's file again, locks it, and maps the sections that others have added. Errors: EIO
 * (the path leads nowhere or to another file), EINVAL (it is damaged). Afterwards call
 * mapped_file_unlock.
 */
int mapped_file_lock(struct memory *store, int *fd, struct weir_error *error);
void mapped_file_unlock(int fd);

/** Adds sections to the locked file, all or none, and maps them. Errors: EIO, EFULL, ENOMEM. */
int mapped_file_add_sections(struct memory *store, int fd, const struct section *fresh, size_t n,
                             struct weir_error *error);

#endif
