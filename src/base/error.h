/* error.h: fill in a struct weir_error. */
#ifndef BASE_ERROR_H
#define BASE_ERROR_H

#include <weir/weir.h>

/** Sets `error` (may be NULL) and returns `status`, so that `return error_set(…)` reads well. */
int error_set(struct weir_error *error, int status, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/** The same with a place in a file; lines and columns start at 1. */
int error_set_at(struct weir_error *error, int status, unsigned line, unsigned column,
                 const char *format, ...) __attribute__((format(printf, 5, 6)));

#endif
