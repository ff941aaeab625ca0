/* A file that is complete or absent, made beside threads that use sockets. */
#include "base/os/new_file.h"

#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

static char directory[] = "/tmp/weir-new-file-XXXXXX", path[64];

static int make_directory(void **context)
{
	(void)context;
	strcpy(strstr(directory, "file-") + strlen("file-"), "XXXXXX");
	if (!mkdtemp(directory))
		return -1;
	snprintf(path, sizeof path, "%s/file", directory);
	return 0;
}

static int remove_directory(void **context)
{
	(void)context;
	unlink(path);
	return rmdir(directory); /* which fails if a temporary name is left */
}

static void make_file(const char *text)
{
	struct new_file file;

	assert_true(new_file_open(&file, path));
	assert_int_equal(write(file.fd, text, strlen(text)), strlen(text));
	assert_true(new_file_link(&file));
	new_file_close(&file);
}

static void test_the_file_is_the_first_ones_and_its_owners_alone(void **context)
{
	char text[16] = "";
	struct stat info;
	FILE *file;

	(void)context;
	make_file("first");
	make_file("second");
	assert_int_equal(stat(path, &info), 0);
	assert_int_equal(info.st_mode & 0777, 0600);
	file = fopen(path, "r");
	assert_non_null(file);
	assert_non_null(fgets(text, sizeof text, file));
	fclose(file);
	assert_string_equal(text, "first");
}

static void test_a_folder_that_is_missing_is_an_error(void **context)
{
	struct new_file file;

	(void)context;
	assert_false(new_file_open(&file, "/tmp/weir-no-such-folder/file"));
	assert_int_equal(errno, ENOENT);
}

/* A socket that is closed as libuv closes one: by the system call itself. */
static void *use_socket(void *closed)
{
	int fds[2];
	char byte;

	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fds), 0);
	assert_int_equal(write(fds[1], "x", 1), 1);
	assert_int_equal(read(fds[0], &byte, 1), 1);
	syscall(SYS_close, fds[0]);
	syscall(SYS_close, fds[1]);
	/* Relaxed, so that for the thread sanitizer nothing of this happened before what follows. */
	atomic_store_explicit((atomic_bool *)closed, true, memory_order_relaxed);
	return NULL;
}

static void test_the_sanitizer_knows_the_file_from_a_socket_of_its_number(void **context)
{
	atomic_bool closed = false;
	pthread_t thread;

	(void)context;
	assert_int_equal(pthread_create(&thread, NULL, use_socket, &closed), 0);
	while (!atomic_load_explicit(&closed, memory_order_relaxed))
		sched_yield();
	make_file("text");
	assert_int_equal(pthread_join(thread, NULL), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test_setup_teardown(test_the_file_is_the_first_ones_and_its_owners_alone,
	                                    make_directory, remove_directory),
	    cmocka_unit_test(test_a_folder_that_is_missing_is_an_error),
	    cmocka_unit_test_setup_teardown(
	        test_the_sanitizer_knows_the_file_from_a_socket_of_its_number, make_directory,
	        remove_directory),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
