/* error.h: fills in a struct weir_error. */
#ifndef BASE_ERROR_H
#define BASE_ERROR_H

#include <weir/weir.h>

/**
 * Sets `error` (may be NULL), with a place in a file, and returns `status`, so that
 * `return error_set(…)` reads well. Lines and columns start at 1.
 */
int error_set_at(struct weir_error *error, int status, unsigned line, unsigned column,
                 const char *format, ...) __attribute__((format(printf, 5, 6)));

/** The same without a place. */
#define error_set(error, status, ...) error_set_at(error, status, 0, 0, __VA_ARGS__)

#endif
