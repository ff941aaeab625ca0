/*
 * store_tables.h: the tables of counts that `weir store` finds in a file store, and enlarging of
 * the file.
 */
#ifndef CLI_STORE_TABLES_H
#define CLI_STORE_TABLES_H

#include "store/file.h"
#include "store/section.h"
#include "table/table.h"

struct store_tables {
	size_t count;
	uint64_t end; /* of the last section */
	struct {
		uint64_t offset;
		struct section section;
		struct table table; /* the part of it that the file contains */
	} found[1 + SECTION_MAX];
};

/**
 * Replaces the file at `path` by one with the same states and the larger `capacity` in keys, which
 * must be in range. The old file is open as `fd`, not in use, and without defects; `tables` are in
 * a private mapping of it. Owner, group and mode stay. The replacement is atomic: it happens once
 * the new file is on the disk. Errors: EIO, EFULL (too many tables), EINVAL, ENOMEM.
 */
int store_resize(int fd, const char *path, struct store_tables *tables, uint64_t capacity,
                 uint64_t now_ns, struct weir_error *error);

#endif
