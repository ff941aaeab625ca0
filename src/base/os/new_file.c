#include "base/os/new_file.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/os/os.h"

bool new_file_open(struct new_file *file, const char *path)
{
	uint64_t random;

	if (os_random(&random, sizeof random) != 0)
		return false;
	file->path = path;
	if (asprintf(&file->temporary_path, "%s.%016" PRIx64, path, random) < 0) {
		errno = ENOMEM;
		return false;
	}
	/*
	 * Not by mkostemp, which the thread sanitizer doesn't see, as it doesn't see how libuv closes a
	 * socket. It would take the new file for the socket that had this number before.
	 */
	file->fd = open(file->temporary_path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (file->fd >= 0)
		return true;
	free(file->temporary_path); /* which keeps errno */
	return false;
}

bool new_file_link(const struct new_file *file)
{
	return link(file->temporary_path, file->path) == 0 || errno == EEXIST;
}

void new_file_close(struct new_file *file)
{
	unlink(file->temporary_path);
	close(file->fd);
	free(file->temporary_path);
}
