/* denial_path.c: names and opens the files of denials. */
#include "server/denials/denial_path.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#define BEGINNING     "{\"id\":\"" /* of each line of ours, without blanks */
#define BEGINNING_MAX 16           /* bytes of a file that are compared with it */

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

bool denial_path_begins_as_ours(int fd)
{
	char found[BEGINNING_MAX];
	const char *expected = BEGINNING;
	ssize_t n = pread(fd, found, sizeof found, 0);

	for (ssize_t i = 0; i < n && *expected; i++)
		if (found[i] != ' ' && found[i] != *expected++)
			return false;
	return n >= 0 && (n < BEGINNING_MAX || !*expected);
}

bool denial_path_is_ours(const char *name)
{
	struct stat info;
	const char *why;
	int fd = denial_path_open(name, O_RDONLY, &info, &why);
	bool is_ours = fd >= 0 && info.st_size > 0 && denial_path_begins_as_ours(fd);

	if (fd >= 0)
		close(fd);
	return is_ours;
}
