/* read_file.c: reads a whole file into a buffer, or what a pipe's writer sends within 5 s. */
#include "base/os/read_file.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/number.h"
#include "base/os/os.h"

#define BLOCK_SIZE ((size_t)64 << 10)

/* The writer of a pipe must have written everything in this time. */
#define PIPE_TIMEOUT_NS (5 * NS_PER_S)

enum file_kind { REGULAR_FILES_ONLY, PIPES_TOO };

/* As read(), but waits for bytes, and fails with ETIMEDOUT at `until_ns` of the monotonic clock. */
static ssize_t read_until(int fd, void *to, size_t size, uint64_t until_ns)
{
	for (;;) {
		uint64_t left_ms = sat_sub(until_ns, os_monotonic_ns()) / NS_PER_MS;
		struct pollfd ready = {fd, POLLIN, 0};
		ssize_t got;
		int events = poll(&ready, 1, (int)left_ms);

		if (events == 0) {
			errno = ETIMEDOUT;
			return -1;
		}
		got = events > 0 ? read(fd, to, size) : -1;
		if (got >= 0 || (errno != EINTR && errno != EAGAIN))
			return got;
	}
}

/*
 * Appends the file to `out`. Reads beyond `max` bytes, so that a longer file is noticed: then it
 * appends nothing and returns ELONG.
 */
static int read_up_to(int fd, bool is_file, size_t max, struct buffer *out,
                      struct weir_error *error)
{
	uint64_t until_ns = os_monotonic_ns() + PIPE_TIMEOUT_NS;
	size_t old_len = out->len;
	ssize_t got = 1;

	while (got > 0 && out->len - old_len <= max) {
		char *to = buffer_reserve(out, BLOCK_SIZE);

		if (!to)
			return error_set(error, WEIR_ENOMEM, "%s", weir_strerror(WEIR_ENOMEM));
		got = is_file ? read(fd, to, BLOCK_SIZE) : read_until(fd, to, BLOCK_SIZE, until_ns);
		out->len += got > 0 ? (size_t)got : 0;
	}
	if (got < 0)
		return error_set(error, WEIR_EIO, "expected a readable file, found: %m");
	if (out->len - old_len > max) {
		out->len = old_len;
		return error_set(error, WEIR_ELONG, "expected at most %zu MiB, found more", max >> 20);
	}
	return WEIR_OK;
}

static int open_and_read(const char *path, enum file_kind kind, size_t max, struct buffer *out,
                         struct weir_error *error)
{
	/* Without O_NONBLOCK, open() would block on a pipe that has no writer. */
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY), status;
	struct stat about = {0};
	bool is_file;

	if (fd < 0)
		return error_set(error, WEIR_EIO, "expected a readable file, found: %m");
	is_file = fstat(fd, &about) == 0 && S_ISREG(about.st_mode);
	if (!is_file && kind == REGULAR_FILES_ONLY)
		status = error_set(error, WEIR_EIO, "expected a readable file, found: %s",
		                   S_ISDIR(about.st_mode) ? strerror(EISDIR) : "not a regular file");
	else
		status = read_up_to(fd, is_file, max, out, error);
	close(fd);
	return status;
}

int file_read(const char *path, size_t max, struct buffer *out, struct weir_error *error)
{
	return open_and_read(path, REGULAR_FILES_ONLY, max, out, error);
}

int file_read_any(const char *path, size_t max, struct buffer *out, struct weir_error *error)
{
	return open_and_read(path, PIPES_TOO, max, out, error);
}
