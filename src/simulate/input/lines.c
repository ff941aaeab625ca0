/* lines.c: cuts a file or pipe, which may be compressed, into lines, in a buffer of fixed size. */
#include "simulate/input/lines.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <weir/weir.h>

#include "base/number.h"

#define BUFFER_SIZE ((size_t)1 << 18)

int lines_open(struct lines *lines, int fd)
{
	*lines = (struct lines){.fd = fd, .data = malloc(BUFFER_SIZE)};
	if (lines->data && fd >= 0)
		lines->unpack = unpack_open(fd);
	if (lines->data && (lines->unpack || fd < 0))
		return WEIR_OK;
	free(lines->data);
	lines->data = NULL;
	return WEIR_ENOMEM;
}

int lines_copy(struct lines *lines, struct slice text)
{
	int status = lines_open(lines, -1);

	if (status == WEIR_OK) {
		memcpy(lines->data, text.data, text.len);
		lines->end = text.len;
		lines->input_ended = true;
	}
	return status;
}

void lines_close(struct lines *lines)
{
	if (!lines->data)
		return;
	if (lines->fd >= 0)
		close(lines->fd);
	unpack_close(lines->unpack);
	free(lines->data);
	lines->data = NULL;
}

/* Reads more bytes into the buffer. Returns false at the end, or on failure with read_error. */
static bool read_more(struct lines *lines)
{
	ptrdiff_t got;

	memmove(lines->data, lines->data + lines->begin, lines->end - lines->begin);
	lines->end -= lines->begin;
	lines->begin = 0;
	got = unpack_read(lines->unpack, lines->data + lines->end, BUFFER_SIZE - lines->end);
	if (got <= 0) {
		lines->read_error = got < 0 ? errno : 0;
		lines->input_ended = true;
		return false;
	}
	lines->end += (size_t)got;
	return true;
}

struct slice lines_peek(struct lines *lines)
{
	while (!lines->input_ended && lines->end - lines->begin < LINES_LENGTH_MAX && read_more(lines))
		;
	return (struct slice){lines->data + lines->begin,
	                      u64_min(lines->end - lines->begin, LINES_LENGTH_MAX)};
}

/*
 * Returns the newline that ends the line at `begin`, or the end of the data if it is the last line
 * and has none. NULL if there is none in more than LINES_LENGTH_MAX bytes.
 */
static char *find_line_end(struct lines *lines)
{
	size_t searched = 0;

	for (;;) {
		char *from = lines->data + lines->begin;
		size_t len = lines->end - lines->begin;
		char *end = memchr(from + searched, '\n', len - searched);

		if (end)
			return end;
		if (len > LINES_LENGTH_MAX)
			return NULL;
		searched = len;
		if (lines->input_ended || !read_more(lines))
			return lines->data + lines->end;
	}
}

/* Skips the rest of a line that is too long; its beginning stays at the start of the buffer. */
static void skip_rest(struct lines *lines)
{
	const size_t kept = LINES_LENGTH_MAX;

	lines->end -= lines->begin;
	memmove(lines->data, lines->data + lines->begin, lines->end);
	for (;;) {
		char *end = memchr(lines->data + kept, '\n', lines->end - kept);

		if (end) {
			lines->begin = (size_t)(end - lines->data) + 1;
			return;
		}
		lines->begin = 0;
		lines->end = kept;
		if (lines->input_ended || !read_more(lines)) {
			lines->begin = lines->end;
			return;
		}
	}
}

/* Returns 1 and the next line, 0 at the end, or EIO with errno set. */
int lines_next(struct lines *lines, struct line *line)
{
	char *end = find_line_end(lines);
	bool has_newline;

	if (!end) {
		skip_rest(lines);
		lines->number++;
		*line = (struct line){lines->data, LINES_LENGTH_MAX, true};
		return 1;
	}
	has_newline = end < lines->data + lines->end;
	if (!has_newline && lines->read_error != 0) {
		errno = lines->read_error;
		return WEIR_EIO;
	}
	line->data = lines->data + lines->begin;
	line->len = (size_t)(end - line->data);
	line->too_long = line->len > LINES_LENGTH_MAX;
	if (!has_newline && line->len == 0)
		return 0;
	lines->begin += line->len + has_newline;
	if (line->len > 0 && line->data[line->len - 1] == '\r')
		line->len--;
	lines->number++;
	return 1;
}
