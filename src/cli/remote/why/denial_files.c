/*
 * denial_files.c: searches the files of a server's denials, line by line from the oldest file to
 * the newest.
 */
#include "cli/remote/why/denial_files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "base/number.h"
#include "server/denials/denial_file.h"
#include "server/denials/denial_line.h"
#include "server/denials/denial_path.h"

struct search {
	const struct denial_filter *filter;
	struct denial_files *out;
	struct denial_sample *sample; /* of the newest that the filter admits */
	int fds[DENIAL_FILES_MAX];    /* the newest file first */
	struct stat last;             /* of the file that was opened last */
	size_t count;
	char line[DENIAL_LINE_MAX + 2];
};

/*
 * Opens file number `n`, if there is one. The server may rotate its files meanwhile, so that a file
 * has the name of the next one by then: it is opened once.
 */
static int open_one(struct search *search, const char *name, uint64_t n, struct weir_error *error)
{
	struct stat info;
	int fd = open(name, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	bool is_ours, is_last;

	if (fd < 0 && errno == ENOENT)
		return WEIR_OK;
	if (fd < 0 || fstat(fd, &info) != 0) {
		error_set(error, WEIR_EIO, "%.200s: %s", name, strerror(errno));
		if (fd >= 0)
			close(fd);
		return WEIR_EIO;
	}
	is_ours = S_ISREG(info.st_mode) && denial_path_begins_as_ours(fd);
	is_last = search->count > 0 && info.st_ino == search->last.st_ino &&
	          info.st_dev == search->last.st_dev;
	if (is_ours && !is_last) {
		search->fds[search->count++] = fd;
		search->last = info;
		return WEIR_OK;
	}
	close(fd);
	if (is_ours || n > 0)
		return WEIR_OK;
	return error_set(error, WEIR_EINVAL, "%.200s: expected a file of denials", name);
}

static int open_files(struct search *search, const char *path, struct weir_error *error)
{
	char *name = malloc(strlen(path) + DENIAL_PATH_SUFFIX_MAX);
	int status = name ? WEIR_OK : error_set(error, WEIR_ENOMEM, "out of memory");

	for (uint64_t i = 0; status == WEIR_OK && i < DENIAL_FILES_MAX; i++)
		status = open_one(search, denial_path_of(path, i, name), i, error);
	free(name);
	if (status == WEIR_OK && search->count == 0)
		return error_set(error, WEIR_EIO, "%.200s: %s", path, strerror(ENOENT));
	return status;
}

static void search_line(struct search *search, size_t len)
{
	struct denial_files *out = search->out;
	struct denial_line line;

	if (denial_line_read(search->line, len, &line)) {
		uint64_t time_ns = line.denial.time_ns;

		out->oldest_ns = out->read_count > 0 ? u64_min(out->oldest_ns, time_ns) : time_ns;
		out->read_count++;
		out->found +=
		    denial_sample_restore_admitted(search->sample, search->filter, &line.denial, line.id);
	} else {
		out->skipped++;
	}
	buffer_free(&line.attributes);
}

/* The last line is ignored if it has no end: the server is writing it. */
static void search_lines(struct search *search, FILE *stream)
{
	size_t len = 0;
	int c;

	while ((c = getc_unlocked(stream)) != EOF) {
		if (c != '\n') {
			search->line[u64_min(len, DENIAL_LINE_MAX)] = (char)c;
			len++;
			continue;
		}
		if (len <= DENIAL_LINE_MAX)
			search_line(search, len);
		else
			search->out->skipped++;
		len = 0;
	}
}

/* Takes the descriptor. */
static int search_file(struct search *search, int fd, struct weir_error *error)
{
	FILE *stream = fdopen(fd, "r");
	bool has_failed;

	if (!stream) {
		close(fd);
		return error_set(error, WEIR_ENOMEM, "out of memory");
	}
	search_lines(search, stream);
	has_failed = ferror(stream);
	fclose(stream);
	return has_failed ? error_set(error, WEIR_EIO, "a file of denials can't be read") : WEIR_OK;
}

int denial_files_list(const char *path, const struct denial_filter *filter,
                      struct denial_files *out, struct weir_error *error)
{
	struct search *search = calloc(1, sizeof *search);
	int status = WEIR_OK;

	if (search)
		search->sample = denial_sample_open(filter->count_max + 1);
	if (!search || !search->sample) {
		free(search);
		return error_set(error, WEIR_ENOMEM, "out of memory");
	}
	search->filter = filter;
	search->out = out;
	status = open_files(search, path, error);
	while (search->count > 0) {
		int fd = search->fds[--search->count];

		if (status == WEIR_OK)
			status = search_file(search, fd, error);
		else
			close(fd);
	}
	if (status == WEIR_OK)
		denial_sample_list(search->sample, filter, &out->json);
	if (status == WEIR_OK && out->json.failed)
		status = error_set(error, WEIR_ENOMEM, "out of memory");
	denial_sample_close(search->sample);
	free(search);
	return status;
}
