/* error.h: fills in a struct weir_error. */
#ifndef BASE_ERROR_H
#define BASE_ERROR_H

#include <weir/weir.h>

/**
 * Sets *error, with a line and column of a file (from 1), and returns `status`, so that a caller can
 * write `return error_set(…)`. `error` may be NULL.
 */
int error_set_at(struct weir_error *error, int status, unsigned line, unsigned column,
                 const char *format, ...) __attribute__((format(printf, 5, 6)));

/** The same without line and column. */
#define error_set(error, status, ...) error_set_at(error, status, 0, 0, __VA_ARGS__)

/**
 * Checks the `reserved` fields of an option struct, an array: a program that was compiled with
 * newer headers may have an option there. EINVAL.
 */
#define error_check_reserved(error, reserved)                                                      \
	error_check_zeros(error, reserved, sizeof(reserved) / sizeof *(reserved))
int error_check_zeros(struct weir_error *error, const uint64_t *reserved, size_t count);

#endif
