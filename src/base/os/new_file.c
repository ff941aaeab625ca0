#include "base/os/new_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

bool new_file_open(struct new_file *file, const char *path)
{
	file->path = path;
	if (asprintf(&file->temporary_path, "%s.XXXXXX", path) < 0) {
		errno = ENOMEM;
		return false;
	}
	file->fd = mkostemp(file->temporary_path, O_CLOEXEC);
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
