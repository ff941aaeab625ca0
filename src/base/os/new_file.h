/*
 * new_file.h: makes a file that is complete or absent, whatever happens meanwhile. It is written
 * under a temporary name, and linked to its path at the end. Of several processes that make it at
 * once one succeeds, and the others leave its file alone.
 */
#ifndef BASE_OS_NEW_FILE_H
#define BASE_OS_NEW_FILE_H

#include <stdbool.h>

struct new_file {
	const char *path;
	char *temporary_path;
	int fd; /* to write to; its mode is 0600 */
};

/** Makes the file under its temporary name. Returns false, and sets errno, if it can't. */
bool new_file_open(struct new_file *file, const char *path);

/**
 * Links the file to its path, unless there is a file by now. Write and sync it before. Returns
 * false, and sets errno, if it can't.
 */
bool new_file_link(const struct new_file *file);

/** Removes the temporary name, and closes the file. */
void new_file_close(struct new_file *file);

#endif
