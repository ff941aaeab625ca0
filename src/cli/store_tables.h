/* tables.h: the tables of a file store, as `weir store` finds them in a mapping of its own. */
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
		struct table table; /* as far as the file reaches */
	} found[1 + SECTION_MAX];
};

/**
 * Replaces the file at `path` by one of the same states with room for `capacity` keys, which is in
 * range and more than before. The old file is open as `fd`, used by nobody, and sound; `tables` are
 * in a private mapping of it. Owner, group and mode stay. Until all is on the disk
 * nothing is changed, and then all at once. Errors: EIO, EFULL (no room), EINVAL, ENOMEM.
 */
int store_resize(int fd, const char *path, struct store_tables *tables, uint64_t capacity,
                 uint64_t now_ns, struct weir_error *error);

#endif
