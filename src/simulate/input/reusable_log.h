/*
 * kept.h: a log that is read more than once.
 *
 * A file is read again. A pipe is copied to a file without a name first, which ends with the
 * process; its size is bounded.
 */
#ifndef SIMULATE_KEPT_H
#define SIMULATE_KEPT_H

#include <stdint.h>
#include <sys/types.h>

#include <weir/weir.h>

#define REUSABLE_LOG_MAX                                                                           \
	(UINT64_C(1) << 30) /* bytes of a pipe, as they come: compressed or not                        \
	                     */

struct reusable_log {
	int fd;
	off_t begin; /* of the log in it */
};

/**
 * Opens `path`, "-" being stdin. Errors: EIO (can't be read, or not be kept), ELONG (a pipe has
 * more than `most` bytes). Close with reusable_log_close in any case.
 */
int reusable_log_open(struct reusable_log *kept, const char *path, uint64_t most,
                      struct weir_error *error);

/** Another descriptor, at the log's beginning; those before it must not be read any more. */
int reusable_log_reopen(const struct reusable_log *kept, const char *path,
                        struct weir_error *error);

void reusable_log_close(struct reusable_log *kept);

#endif
