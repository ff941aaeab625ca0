/*
 * reusable_log.h: opens a log so that it can be read more than once.
 *
 * A file is simply read again. A pipe is first copied to a temporary file without a name, of
 * bounded size, which the kernel removes with the process.
 */
#ifndef SIMULATE_REUSABLE_LOG_H
#define SIMULATE_REUSABLE_LOG_H

#include <stdint.h>
#include <sys/types.h>

#include <weir/weir.h>

#define REUSABLE_LOG_MAX                                                                           \
	(UINT64_C(1) << 30) /* bytes of a pipe, as they come: compressed or not                        \
	                     */

struct reusable_log {
	int fd;
	off_t begin; /* where the log begins in the file */
};

/**
 * Opens `path`; "-" is stdin. Errors: EIO (can't be read or copied), ELONG (a pipe has
 * more than `most` bytes). Close with reusable_log_close in any case.
 */
int reusable_log_open(struct reusable_log *log, const char *path, uint64_t bytes_max,
                      struct weir_error *error);

/**
 * Returns a descriptor at the log's beginning, or an error. Earlier descriptors must not be read
 * any more, because they share its position.
 */
int reusable_log_reopen(const struct reusable_log *log, const char *path, struct weir_error *error);

void reusable_log_close(struct reusable_log *log);

#endif
