/* Reads a log several times, from a file and from a pipe. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "simulate/input/reusable_log.h"

/* The path of a pipe that holds `text` and has ended. */
static void fill_pipe(int fds[2], const char *text, char path[32])
{
	assert_int_equal(pipe(fds), 0);
	assert_int_equal(write(fds[1], text, strlen(text)), strlen(text));
	close(fds[1]);
	snprintf(path, 32, "/dev/fd/%d", fds[0]);
}

static void a_pipe_is_read_as_often_as_wanted(void **state)
{
	struct weir_error error;
	struct reusable_log kept;
	char path[32], got[16];
	int fds[2];

	(void)state;
	fill_pipe(fds, "0123456789", path);
	assert_int_equal(reusable_log_open(&kept, path, 10, &error), WEIR_OK);
	for (int i = 0; i < 3; i++) {
		int fd = reusable_log_reopen(&kept, path, &error);

		assert_int_equal(read(fd, got, sizeof got), 10);
		assert_memory_equal(got, "0123456789", 10);
		close(fd);
	}
	reusable_log_close(&kept);
	close(fds[0]);
}

static void a_pipe_that_is_too_long_is_refused(void **state)
{
	struct weir_error error;
	struct reusable_log kept;
	char path[32];
	int fds[2];

	(void)state;
	fill_pipe(fds, "0123456789", path);
	assert_int_equal(reusable_log_open(&kept, path, 9, &error), WEIR_ELONG);
	assert_non_null(strstr(error.message, "expected a pipe of at most"));
	reusable_log_close(&kept);
	close(fds[0]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_pipe_is_read_as_often_as_wanted),
	    cmocka_unit_test(a_pipe_that_is_too_long_is_refused),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
