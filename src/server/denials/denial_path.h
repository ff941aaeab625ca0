/* denial_path.h: names and opens the files of denials, for their reader and their writer. */
#ifndef SERVER_DENIAL_PATH_H
#define SERVER_DENIAL_PATH_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#define DENIAL_PATH_SUFFIX_MAX 24 /* of PATH.N, with its NUL */

/**
 * The name of file number `n`: the path itself for 0, the newest, and PATH.N for older ones. `text`
 * has space for the path and DENIAL_PATH_SUFFIX_MAX bytes.
 */
const char *denial_path_of(const char *path, uint64_t n, char *text);

/**
 * Opens a file with these flags of open(2), and sets *info. Only a regular file of this user is
 * opened, and not through a symbolic link. Returns the descriptor, or -1 and in *why what is wrong.
 */
int denial_path_open(const char *name, int flags, struct stat *info, const char **why);

/** Whether the open file is empty or begins as a file of denials, or with a part of such a line. */
bool denial_path_begins_as_ours(int fd);

/** Whether a file of denials, which is not empty, has this name. */
bool denial_path_is_ours(const char *name);

#endif
