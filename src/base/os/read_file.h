/* read_file.h: reads a whole file into memory. */
#ifndef BASE_OS_READ_FILE_H
#define BASE_OS_READ_FILE_H

#include <weir/weir.h>

#include "base/buffer.h"

/**
 * Appends a regular file to `out`, and nothing of one that has more than `max` bytes. 0, EIO, ELONG
 * or ENOMEM. Free `out` in each case. Never waits: anything else at `path`, such as a pipe, is an
 * EIO.
 */
int file_read(const char *path, size_t max, struct buffer *out, struct weir_error *error);
/** As file_read, of a pipe, too, which is waited for 5 s at most. */
int file_read_any(const char *path, size_t max, struct buffer *out, struct weir_error *error);

#endif
