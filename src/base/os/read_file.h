/* read_file.h: reads a whole file into memory. */
#ifndef BASE_OS_READ_FILE_H
#define BASE_OS_READ_FILE_H

#include <weir/weir.h>

#include "base/buffer.h"

/**
 * Appends the content of a regular file to `out`. Appends nothing if it has more than `max` bytes
 * (ELONG). Free `out` in each case. Never waits, so a pipe is an error. Errors: EIO, ELONG, ENOMEM.
 */
int file_read(const char *path, size_t max, struct buffer *out, struct weir_error *error);
/** The same, but also reads a pipe, and waits up to 5 s for its writer. */
int file_read_any(const char *path, size_t max, struct buffer *out, struct weir_error *error);

#endif
