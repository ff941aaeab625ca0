/*
 * denial_file_read.c: reads the files of denials when the server starts: the newest
 * DENIAL_FILE_READ_MAX bytes of them, from the oldest line to the newest.
 */
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/number.h"
#include "server/denials/denial_file.h"
#include "server/denials/denial_line.h"
#include "server/denials/denial_path.h"

#define WARNINGS_MAX 10 /* of lines that are skipped, at one start */
#define MESSAGE_MAX  128

_Static_assert(DENIAL_LINE_MAX == 5136, "a warning has the number");

struct file_reader {
	const struct denial_file_options *options;
	struct denial_sample *sample;
	uint64_t read_count, skipped_count;
	const char *name;               /* of the file that is read */
	bool is_cut;                    /* whose first bytes are skipped */
	char line[DENIAL_LINE_MAX + 2]; /* and its line */
};

/* Warns of a line by its number, or, in a file that is not read from its start, by its offset. */
static void warn_of_line(struct file_reader *reader, uint64_t place, const char *expected,
                         unsigned column)
{
	char message[MESSAGE_MAX];

	if (reader->skipped_count++ >= WARNINGS_MAX)
		return;
	snprintf(message, sizeof message, "expected %s", expected);
	log_event(reader->options->log, LOG_WARNING, "denial_skipped", {"file", reader->name},
	          {reader->is_cut ? "byte" : "line", .number = place}, {"column", .number = column},
	          {"message", message});
}

static void keep_line(struct file_reader *reader, size_t len, uint64_t place)
{
	struct denial_line line;

	if (denial_line_read(reader->line, len, &line)) {
		denial_sample_restore(reader->sample, &line.denial, line.id);
		reader->read_count++;
	} else {
		warn_of_line(reader, place, line.expected, line.column);
	}
	buffer_free(&line.attributes);
}

/*
 * Moves to the first line that begins at `offset` or later, of a file of which nothing was read.
 * Returns where the line begins.
 */
static uint64_t skip_to_line(FILE *stream, uint64_t offset)
{
	uint64_t at = offset - 1; /* a newline there ends the line before */
	int c;

	lseek(fileno(stream), (off_t)at, SEEK_SET); /* a regular file, so it does not fail */
	do {
		c = getc_unlocked(stream);
		at++;
	} while (c != EOF && c != '\n');
	return at;
}

/*
 * Reads the lines that begin at `skipped` bytes or later. The last one is ignored if it has no end:
 * the server was killed while it wrote it.
 */
static void read_lines(struct file_reader *reader, FILE *stream, uint64_t skipped)
{
	uint64_t at = skipped > 0 ? skip_to_line(stream, skipped) : 0, begin = at, number = 1;
	size_t len = 0;
	bool is_long = false;
	int c;

	while ((c = getc_unlocked(stream)) != EOF) {
		uint64_t place = reader->is_cut ? begin : number;

		at++;
		if (c != '\n') {
			is_long |= len == DENIAL_LINE_MAX;
			reader->line[len] = (char)c;
			len += len < DENIAL_LINE_MAX;
			continue;
		}
		if (is_long)
			warn_of_line(reader, place, "a line of 5136 bytes at most", DENIAL_LINE_MAX);
		else
			keep_line(reader, len, place);
		number++;
		begin = at;
		len = 0;
		is_long = false;
	}
}

static void read_one_file(struct file_reader *reader, const char *name, uint64_t bytes)
{
	const char *why;
	struct stat info;
	int fd = denial_path_open(name, O_RDONLY, &info, &why);
	FILE *stream = fd >= 0 ? fdopen(fd, "r") : NULL;

	reader->name = name;
	if (why)
		log_event(reader->options->log, LOG_WARNING, "denials_not_read", {"file", name},
		          {"message", why});
	if (stream) {
		uint64_t skipped = sat_sub((uint64_t)info.st_size, bytes);

		reader->is_cut = skipped > 0;
		read_lines(reader, stream, skipped);
		fclose(stream);
	} else if (fd >= 0) {
		close(fd);
	}
}

void denial_file_read(const struct denial_file_options *options, struct denial_sample *sample)
{
	struct file_reader *reader = calloc(1, sizeof *reader);
	uint64_t *bytes = calloc(options->files, sizeof *bytes); /* to read of each file */
	char *name = malloc(strlen(options->path) + DENIAL_PATH_SUFFIX_MAX);
	uint64_t oldest_ns;
	uint64_t space =
	    u64_min(denial_sample_capacity(sample) * (DENIAL_LINE_MAX + 1), DENIAL_FILE_READ_MAX);

	if (reader && bytes && name && sample) {
		reader->options = options;
		reader->sample = sample;
		for (uint64_t i = 0; i < options->files && space > 0; i++) {
			uint64_t size = 0;
			struct stat info;

			if (lstat(denial_path_of(options->path, i, name), &info) == 0)
				size = (uint64_t)info.st_size;
			bytes[i] = u64_min(size, space);
			space -= bytes[i];
		}
		for (uint64_t i = options->files; i-- > 0;)
			if (bytes[i] > 0)
				read_one_file(reader, denial_path_of(options->path, i, name), bytes[i]);
		if (reader->read_count + reader->skipped_count > 0)
			log_event(options->log, LOG_INFO, "denials_read", {"file", options->path},
			          {"denials", .number = reader->read_count},
			          {"kept", .number = denial_sample_count(sample, &oldest_ns)},
			          {"skipped", .number = reader->skipped_count});
	}
	free(name);
	free(bytes);
	free(reader);
}
