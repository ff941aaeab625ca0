/* denial_secret.c: reads or makes the file with the secret for digests in files of denials. */
#include "server/denials/denial_secret.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/error.h"
#include "base/os/new_file.h"
#include "base/os/os.h"
#include "server/access/permit_secret.h"
#include "server/denials/denial_path.h"

#define EXPECTED "expected a file of 32 hexadecimal digits"

/* Writes a random secret to the open file, and waits until the disk has it. */
static const char *write_secret(int fd)
{
	struct hash_key secret;
	char text[PERMIT_SECRET_TEXT];
	ssize_t n;

	if (os_random(&secret, sizeof secret) != WEIR_OK)
		return "the system has no random bytes";
	permit_secret_write(&secret, text);
	text[PERMIT_SECRET_TEXT - 1] = '\n'; /* in place of the NUL */
	n = write(fd, text, sizeof text);
	if (n != (ssize_t)sizeof text)
		return n < 0 ? strerror(errno) : "no space left for the whole secret";
	return fsync(fd) == 0 ? NULL : strerror(errno);
}

/* Makes the file. Two servers that start at once both use the first one's. Returns NULL, or what is
 * wrong. */
static const char *make_file(const char *path)
{
	struct new_file file;
	const char *why;

	if (!new_file_open(&file, path))
		return strerror(errno);
	why = write_secret(file.fd);
	if (!why && !new_file_link(&file))
		why = strerror(errno);
	new_file_close(&file);
	return why;
}

/* Reads the secret of the open file. Returns NULL, or what is wrong with it. */
static const char *read_secret(int fd, const struct stat *info, struct hash_key *secret)
{
	char text[PERMIT_SECRET_TEXT + 1]; /* one more than are expected */
	ssize_t n = pread(fd, text, sizeof text, 0);
	struct slice digits = {text, PERMIT_SECRET_TEXT - 1};

	if (n < 0)
		return strerror(errno);
	if (n != PERMIT_SECRET_TEXT)
		return n < PERMIT_SECRET_TEXT ? EXPECTED ", found a shorter one"
		                              : EXPECTED ", found a longer one";
	if (text[PERMIT_SECRET_TEXT - 1] != '\n' || !permit_secret_read(digits, secret))
		return EXPECTED ", found other text";
	if ((info->st_mode & 0777) != 0600 && fchmod(fd, 0600) != 0)
		return "expected a file that only its owner may read";
	return NULL;
}

const char *denial_secret_read(const char *path, struct hash_key *secret)
{
	const char *why;
	struct stat info;
	int fd = denial_path_open(path, O_RDONLY, &info, &why);

	if (!why)
		why = read_secret(fd, &info, secret);
	if (fd >= 0)
		close(fd);
	return why;
}

static int read_file(const char *path, struct hash_key *secret, struct weir_error *error)
{
	const char *why = denial_secret_read(path, secret);

	if (!why)
		return WEIR_OK;
	return error_set(error, WEIR_EIO,
	                 "%.120s: %s; without it a new one is made, which finds no earlier denial",
	                 path, why);
}

int denial_secret_open(const char *denials_path, struct log *log, struct hash_key *secret,
                       struct weir_error *error)
{
	const char *why = NULL;
	struct stat info;
	char *path;
	int status;

	if (asprintf(&path, "%s.secret", denials_path) < 0)
		return error_set(error, WEIR_ENOMEM, "out of memory");
	if (lstat(path, &info) != 0)
		why = errno == ENOENT ? make_file(path) : strerror(errno);
	if (why)
		log_event(log, LOG_WARNING, "digests_not_kept", {"file", path}, {"message", why});
	status = why ? WEIR_OK : read_file(path, secret, error);
	free(path);
	return status;
}
