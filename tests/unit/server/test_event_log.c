#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>
#include <pthread.h>

#include "server/admin/event_log.h"

#define PATIENCE_MS 20000
#define TIME_LEN    (sizeof "2026-05-01T12:00:00.123Z" - 1)

struct fixture {
	struct log *log;
	int fd;
	char text[65536];
};

static void open_log(struct fixture *f, enum log_format format)
{
	f->fd = memfd_create("log", 0);
	f->log = log_open(format, f->fd);
	assert_true(f->fd >= 0);
	assert_non_null(f->log);
}

/* All lines so far. */
static const char *text_of(struct fixture *f)
{
	ssize_t len;

	assert_true(log_flush(f->log, PATIENCE_MS));
	len = pread(f->fd, f->text, sizeof f->text - 1, 0);
	assert_true(len >= 0);
	f->text[len] = '\0';
	return f->text;
}

static void close_log(struct fixture *f)
{
	log_close(f->log);
	close(f->fd);
}

/* Checks all of a line but its time. */
static void assert_line(const char *line, const char *before, const char *after)
{
	unsigned n[7];
	int len = 0;

	assert_memory_equal(line, before, strlen(before));
	line += strlen(before);
	assert_int_equal(sscanf(line, "%4u-%2u-%2uT%2u:%2u:%2u.%3uZ%n", &n[0], &n[1], &n[2], &n[3],
	                        &n[4], &n[5], &n[6], &len),
	                 7);
	assert_int_equal(len, TIME_LEN);
	assert_string_equal(line + len, after);
}

static void a_line_is_time_level_event_and_fields(void **state)
{
	struct fixture f;

	(void)state;
	open_log(&f, LOG_TEXT);
	log_event(f.log, LOG_INFO, "reloaded", {"file", "a b=\"\n"}, {"word", "x:1"}, {"none", ""},
	          {"limits", .number = 3}, {"message", "as it \"is\"\n"});
	assert_line(
	    text_of(&f), "",
	    " info reloaded file=\"a b=\\\"\\u000a\" word=x:1 none=\"\" limits=3 as it \"is\"\\x0a\n");
	close_log(&f);
	/* Terminals obey C1 controls, and reorder text after a right-to-left override. */
	open_log(&f, LOG_TEXT);
	log_event(f.log, LOG_INFO, "denied",
	          {"key", "a\xc2\x9b"
	                  "2Jb"},
	          {"rule", "a \xe2\x80\xae b"}, {"limit", "k\xc3\xa4se"},
	          {"message", "\xc2\x85\xe2\x81\xa6"});
	assert_line(text_of(&f), "",
	            " info denied key=a\\xc2\\x9b2Jb rule=\"a \\xe2\\x80\\xae b\" limit=k\xc3\xa4se "
	            "\\xc2\\x85\\xe2\\x81\\xa6\n");
	close_log(&f);
	open_log(&f, LOG_JSON);
	log_event(f.log, LOG_WARNING, "reloaded", {"file", "a b=\"\n\xff"}, {"limits", .number = 3});
	assert_line(text_of(&f), "{\"time\":\"",
	            "\",\"level\":\"warning\",\"event\":\"reloaded\","
	            "\"file\":\"a b=\\\"\\u000a\xef\xbf\xbd\",\"limits\":3}\n");
	close_log(&f);
}

static void an_error_has_its_place_where_there_is_one(void **state)
{
	struct weir_error placed = {.line = 7, .column = 3, .message = "expected a rate"};
	struct weir_error bare = {.message = "out of memory"};
	struct fixture f;

	(void)state;
	open_log(&f, LOG_TEXT);
	log_error(f.log, "reload_failed", "weir.yaml", &placed);
	assert_line(text_of(&f), "", " error reload_failed weir.yaml:7:3: error: expected a rate\n");
	close_log(&f);
	open_log(&f, LOG_TEXT);
	log_error(f.log, "start_failed", NULL, &bare);
	assert_line(text_of(&f), "", " error start_failed out of memory\n");
	close_log(&f);
	open_log(&f, LOG_JSON);
	log_error(f.log, "reload_failed", "weir.yaml", &placed);
	assert_line(text_of(&f), "{\"time\":\"",
	            "\",\"level\":\"error\",\"event\":\"reload_failed\",\"file\":\"weir.yaml\","
	            "\"line\":7,\"column\":3,\"message\":\"expected a rate\"}\n");
	close_log(&f);
}

static unsigned count_lines(const char *text)
{
	unsigned n = 0;

	for (; (text = strchr(text, '\n')); text++)
		n++;
	return n;
}

/* The sum of "dropped" in all lines. */
static unsigned long long count_dropped(const char *text)
{
	unsigned long long told = 0;

	for (; (text = strstr(text, " dropped=")); text++)
		told += strtoull(text + strlen(" dropped="), NULL, 10);
	return told;
}

/* If the machine stalls, a line may pass amid the flood, and report lines dropped before it. */
static void a_flood_is_dropped_and_counted_and_hides_no_other_event(void **state)
{
	const unsigned flood = 10 * LOG_BURST;
	struct fixture f;
	unsigned passed;

	(void)state;
	open_log(&f, LOG_TEXT);
	for (unsigned i = 0; i < flood; i++)
		log_event(f.log, LOG_WARNING, "trouble", {"number", .number = i});
	passed = count_lines(text_of(&f));
	assert_in_range(passed, LOG_BURST, flood / 2);
	assert_int_equal(passed + log_dropped(f.log), flood);
	log_event(f.log, LOG_INFO, "stopping");
	assert_non_null(strstr(text_of(&f), " info stopping"));
	assert_int_equal(count_dropped(f.text), log_dropped(f.log));
	log_event(f.log, LOG_INFO, "stopped");
	assert_non_null(strstr(text_of(&f), " info stopped\n"));
	close_log(&f);
}

/* The disk is full, and later has space again. */
static void an_unwritten_line_counts_as_dropped_with_those_it_reports(void **state)
{
	unsigned long long dropped;
	struct fixture f;
	int file, full;

	(void)state;
	open_log(&f, LOG_TEXT);
	for (unsigned i = 0; i < 2 * LOG_BURST; i++)
		log_event(f.log, LOG_WARNING, "trouble");
	dropped = log_dropped(f.log);
	assert_true(dropped > 0);
	assert_true(log_flush(f.log, PATIENCE_MS));
	file = dup(f.fd);
	full = open("/dev/full", O_WRONLY);
	assert_int_equal(dup2(full, f.fd), f.fd);
	log_event(f.log, LOG_ERROR, "reload_failed");
	assert_true(log_flush(f.log, PATIENCE_MS));
	assert_int_equal(log_dropped(f.log), dropped + 1);
	assert_int_equal(dup2(file, f.fd), f.fd);
	log_event(f.log, LOG_INFO, "stopping");
	assert_non_null(strstr(text_of(&f), " info stopping dropped="));
	assert_int_equal(count_dropped(f.text), dropped + 1);
	close(file);
	close(full);
	close_log(&f);
}

static void *drain(void *argument)
{
	static char sink[1 << 16];
	size_t *lines = argument;
	int fd = (int)lines[0];
	ssize_t n;

	for (lines[0] = 0; (n = read(fd, sink, sizeof sink)) > 0;)
		for (ssize_t i = 0; i < n; i++)
			lines[0] += sink[i] == '\n';
	return NULL;
}

/* Opens a pipe that takes no more bytes, so that a writer blocks. */
static void open_full_pipe(int ends[2])
{
	const char filler[512] = {0};

	assert_int_equal(pipe(ends), 0);
	assert_int_equal(fcntl(ends[1], F_SETFL, O_NONBLOCK), 0);
	while (write(ends[1], filler, sizeof filler) > 0)
		;
	assert_int_equal(errno, EAGAIN);
	assert_int_equal(fcntl(ends[1], F_SETFL, 0), 0);
}

/* Nobody reads the pipe for a while. */
static void logging_never_waits_for_stderr(void **state)
{
	enum { EVENTS = 20, LINES = EVENTS * LOG_BURST / 2 };
	char message[1000], event[] = "event-a";
	struct log *log;
	size_t lines, kept;
	pthread_t reader;
	int ends[2];

	(void)state;
	open_full_pipe(ends);
	log = log_open(LOG_TEXT, ends[1]);
	memset(message, 'm', sizeof message - 1);
	message[sizeof message - 1] = '\0';
	for (int i = 0; i < LINES; i++) {
		event[6] = (char)('a' + i % EVENTS);
		log_event(log, LOG_WARNING, event, {"message", message});
	}
	/* A line has the message, and at most 100 bytes besides. */
	kept = LINES - log_dropped(log);
	assert_in_range(kept, LOG_QUEUE_MAX / 1099, LOG_QUEUE_MAX / 999);
	assert_false(log_flush(log, 1));
	assert_false(fcntl(ends[1], F_GETFL) & O_NONBLOCK); /* other processes write to it, too */
	lines = (size_t)ends[0];
	assert_int_equal(pthread_create(&reader, NULL, drain, &lines), 0);
	assert_true(log_flush(log, PATIENCE_MS));
	log_event(log, LOG_INFO, "last");
	log_close(log);
	close(ends[1]);
	pthread_join(reader, NULL);
	assert_int_equal(lines, kept + 1);
	close(ends[0]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_line_is_time_level_event_and_fields),
	    cmocka_unit_test(an_error_has_its_place_where_there_is_one),
	    cmocka_unit_test(a_flood_is_dropped_and_counted_and_hides_no_other_event),
	    cmocka_unit_test(logging_never_waits_for_stderr),
	    cmocka_unit_test(an_unwritten_line_counts_as_dropped_with_those_it_reports),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
