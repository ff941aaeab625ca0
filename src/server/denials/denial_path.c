/* denial_path.c: names and opens the files of denials. */
#include "server/denials/denial_path.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

const char *denial_path_of(const char *path, uint64_t n, char *text)
{
	if (n == 0)
		return path;
	snprintf(text, strlen(path) + DENIAL_PATH_SUFFIX_MAX, "%s.%llu", path, (unsigned long long)n);
	return text;
}

/* O_NONBLOCK: opening a FIFO does not block then. */
int denial_path_open(const char *name, int flags, struct stat *info, const char **why)
{
	int fd = open(name, flags | O_NOFOLLOW | O_CLOEXEC | O_NONBLOCK, 0600);

	*why = NULL;
	if (fd < 0)
		*why = errno == ELOOP ? "expected a file, found a symbolic link" : strerror(errno);
	else if (fstat(fd, info) != 0)
		*why = strerror(errno);
	else if (!S_ISREG(info->st_mode))
		*why = "expected a regular file, found another kind";
	else if (info->st_uid != geteuid())
		*why = "expected a file of this user, found one of another";
	if (!*why)
		return fd;
	if (fd >= 0)
		close(fd);
	return -1;
}
