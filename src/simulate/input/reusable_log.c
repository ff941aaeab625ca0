/*
 * reusable_log.c: opens a log so that it can be read several times. A pipe can be read only once,
 * so it is first copied to a temporary file.
 */
#include "simulate/input/reusable_log.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"

#define PIECE ((size_t)1 << 16)

/* Copies the rest of `from` into `to`. 0, EIO with errno set, or ELONG. */
static int copy_bytes(int from, FILE *to, uint64_t bytes_max)
{
	char piece[PIECE];
	uint64_t sum = 0;

	for (;;) {
		ssize_t got = read(from, piece, sizeof piece);

		if (got < 0 && errno == EINTR)
			continue;
		if (got <= 0)
			return got == 0 && fflush(to) == 0 ? WEIR_OK : WEIR_EIO;
		sum += (uint64_t)got;
		if (sum > bytes_max)
			return WEIR_ELONG;
		if (fwrite(piece, 1, (size_t)got, to) != (size_t)got)
			return WEIR_EIO;
	}
}

/* Replaces the pipe log->fd by a temporary file with its content. Closes the pipe also on error. */
static int copy_pipe(struct reusable_log *log, const char *path, uint64_t bytes_max,
                     struct weir_error *error)
{
	FILE *file = tmpfile();
	int status = file ? copy_bytes(log->fd, file, bytes_max) : WEIR_EIO;

	if (status == WEIR_ELONG)
		error_set(error, status,
		          "%s: expected a pipe of at most %llu MiB, found more: --suggest reads the log "
		          "several times, so give it a file",
		          path, (unsigned long long)(bytes_max >> 20));
	else if (status != WEIR_OK)
		error_set(error, status, "%s: can't copy the pipe to a temporary file: %m", path);
	close(log->fd);
	log->fd = status == WEIR_OK ? fcntl(fileno(file), F_DUPFD_CLOEXEC, 0) : -1;
	if (file)
		fclose(file);
	if (status == WEIR_OK && log->fd < 0)
		return error_set(error, WEIR_EIO, "%s: can't copy the pipe to a temporary file: %m", path);
	return status;
}

int reusable_log_open(struct reusable_log *log, const char *path, uint64_t bytes_max,
                      struct weir_error *error)
{
	struct stat file;

	*log = (struct reusable_log){.fd = strcmp(path, "-") == 0 ? dup(STDIN_FILENO)
	                                                          : open(path, O_RDONLY | O_CLOEXEC)};
	if (log->fd < 0 || fstat(log->fd, &file) != 0)
		return error_set(error, WEIR_EIO, "%s: expected a readable file, found: %m", path);
	if (!S_ISREG(file.st_mode))
		return copy_pipe(log, path, bytes_max, error);
	log->begin = lseek(log->fd, 0, SEEK_CUR);
	return WEIR_OK;
}

int reusable_log_reopen(const struct reusable_log *log, const char *path, struct weir_error *error)
{
	int fd = -1;

	if (lseek(log->fd, log->begin, SEEK_SET) == log->begin)
		fd = fcntl(log->fd, F_DUPFD_CLOEXEC, 0);
	return fd >= 0 ? fd
	               : error_set(error, WEIR_EIO, "%s: expected a readable file, found: %m", path);
}

void reusable_log_close(struct reusable_log *log)
{
	if (log->fd >= 0)
		close(log->fd);
	log->fd = -1;
}
