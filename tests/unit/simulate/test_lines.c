/* Reads lines at the edges of the reader's buffer, through a file that gives few bytes at a time.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <weir/weir.h>

#include "simulate/input/lines.h"

static struct lines open_text(const char *text, size_t len)
{
	struct lines lines;
	int fd = memfd_create("lines", 0);

	assert_int_equal(write(fd, text, len), len);
	assert_int_equal(lseek(fd, 0, SEEK_SET), 0);
	assert_int_equal(lines_open(&lines, fd), WEIR_OK);
	return lines;
}

static void expect(struct lines *lines, size_t len, bool too_long)
{
	struct line line;

	assert_int_equal(lines_next(lines, &line), 1);
	assert_int_equal(line.too_long, too_long);
	if (!too_long) {
		assert_int_equal(line.len, len);
		for (size_t i = 0; i < len; i++)
			assert_int_equal(line.data[i], 'a' + (int)(len % 26));
	}
}

static void lines_of_every_length_are_read_across_the_buffers_end(void **state)
{
	static const size_t sizes[] = {0,
	                               1,
	                               100,
	                               LINES_LENGTH_MAX,
	                               3,
	                               LINES_LENGTH_MAX + 1,
	                               7,
	                               3 * 1024 * 1024,
	                               5,
	                               1024 * 1024,
	                               1024 * 1024 - 1,
	                               2,
	                               60000};
	const size_t n = sizeof sizes / sizeof *sizes, room = 64 << 20;
	char *text = malloc(room);
	struct lines lines;
	struct line line;
	size_t len = 0;

	(void)state;
	for (size_t round = 0; round < 8; round++)
		for (size_t i = 0; i < n; i++) {
			memset(text + len, 'a' + (int)(sizes[i] % 26), sizes[i]);
			len += sizes[i];
			if (round % 2)
				text[len++] = '\r';
			text[len++] = '\n';
		}
	assert_true(len < room);
	lines = open_text(text, len);
	for (size_t round = 0; round < 8; round++)
		for (size_t i = 0; i < n; i++)
			expect(&lines, sizes[i], sizes[i] + round % 2 > LINES_LENGTH_MAX);
	assert_int_equal(lines_next(&lines, &line), 0);
	assert_int_equal(lines.number, 8 * n);
	lines_close(&lines);
	free(text);
}

static void the_last_line_needs_no_end(void **state)
{
	struct lines lines = open_text("a\nbb", 4);
	struct line line;

	(void)state;
	assert_int_equal(lines_next(&lines, &line), 1);
	assert_int_equal(lines_next(&lines, &line), 1);
	assert_memory_equal(line.data, "bb", line.len);
	assert_int_equal(line.len, 2);
	assert_int_equal(lines_next(&lines, &line), 0);
	assert_int_equal(lines_next(&lines, &line), 0);
	lines_close(&lines);
}

/* The log is a gzip file of two blocks that are not compressed, and ends without a last block. */
static void an_error_within_a_line_that_is_too_long_follows_it(void **state)
{
	static const unsigned char header[] = {0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3};
	static const unsigned char block[] = {0, 0xff, 0xff, 0, 0}; /* 65,535 bytes follow */
	static char text[sizeof header + 2 * (sizeof block + 0xffff)];
	struct lines lines;
	struct line line;

	(void)state;
	memset(text, 'a', sizeof text);
	memcpy(text, header, sizeof header);
	memcpy(text + sizeof header, block, sizeof block);
	memcpy(text + sizeof header + sizeof block + 0xffff, block, sizeof block);
	lines = open_text(text, sizeof text);
	expect(&lines, 0, true);
	assert_int_equal(lines_next(&lines, &line), WEIR_EIO);
	lines_close(&lines);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(lines_of_every_length_are_read_across_the_buffers_end),
	    cmocka_unit_test(the_last_line_needs_no_end),
	    cmocka_unit_test(an_error_within_a_line_that_is_too_long_follows_it),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
