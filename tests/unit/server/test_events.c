#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "server/admin/events.h"

#define ROOM ((size_t)1 << 20)

/* Reads what a client gets from event *next on, and moves *next on. */
static const char *read_from(struct events *events, uint64_t *next, size_t room)
{
	static struct buffer out;

	out.len = 0;
	*next = events_read(events, *next, room, &out);
	buffer_add(&out, "", 1);
	assert_false(out.failed);
	return out.data;
}

static void add_some(struct events *events, unsigned n)
{
	for (unsigned i = 0; i < n; i++)
		events_add(events, "shed", SLICE("{}"));
}

static void a_client_reads_from_its_next_event(void **state)
{
	struct events *events = events_open(EVENTS_OF_LOG);
	uint64_t next = events_next(events), last = 1 + 1;

	(void)state;
	assert_int_equal(next, 1);
	events_add(events, "shed", SLICE("{\"deny\":1}"));
	events_add(events, "reloaded", SLICE("{}"));
	assert_string_equal(read_from(events, &next, ROOM), "id: 1\nevent: shed\ndata: {\"deny\":1}\n\n"
	                                                    "id: 2\nevent: reloaded\ndata: {}\n\n");
	assert_int_equal(next, 3);
	assert_string_equal(read_from(events, &next, ROOM), "");
	assert_string_equal(read_from(events, &last, ROOM), "id: 2\nevent: reloaded\ndata: {}\n\n");
	events_close(events);
}

static void denials_have_no_numbers_and_a_name_of_their_own_for_missed_ones(void **state)
{
	const char *expected = "event: missed_denials\ndata: {\"count\":3}\n\n"
	                       "event: denial\ndata: {}\n\n"
	                       "event: denial\n";
	struct events *events = events_open(EVENTS_OF_DENIALS);
	uint64_t next = 1;

	(void)state;
	for (unsigned i = 0; i < EVENTS_KEPT + 3; i++)
		events_add(events, "denial", SLICE("{}"));
	assert_memory_equal(read_from(events, &next, ROOM), expected, strlen(expected));
	assert_int_equal(next, EVENTS_KEPT + 4);
	events_close(events);
}

static void an_event_that_does_not_fit_comes_later_and_whole(void **state)
{
	const char *first = "id: 1\nevent: shed\ndata: {}\n\n";
	struct events *events = events_open(EVENTS_OF_LOG);
	uint64_t next = 1;

	(void)state;
	add_some(events, 2);
	assert_string_equal(read_from(events, &next, strlen(first) - 1), "");
	assert_string_equal(read_from(events, &next, 2 * strlen(first) - 1), first);
	assert_string_equal(read_from(events, &next, strlen(first)),
	                    "id: 2\nevent: shed\ndata: {}\n\n");
	events_close(events);
}

static void a_slow_client_gets_the_number_of_missed_events(void **state)
{
	struct events *events = events_open(EVENTS_OF_LOG);
	uint64_t next = 3;
	const char *text;

	(void)state;
	add_some(events, EVENTS_KEPT + 7);
	/* too little space to report missed events */
	assert_string_equal(read_from(events, &next, 20), "");
	assert_int_equal(next, 3);
	text = read_from(events, &next, ROOM);
	assert_memory_equal(text, "event: missed\ndata: {\"count\":5}\n\nid: 8\n", 39);
	assert_int_equal(next, EVENTS_KEPT + 8);
	events_close(events);
}

static void a_number_of_another_server_starts_over(void **state)
{
	struct events *events = events_open(EVENTS_OF_LOG);
	uint64_t next = 1000;

	(void)state;
	add_some(events, 1);
	assert_string_equal(read_from(events, &next, ROOM), "id: 1\nevent: shed\ndata: {}\n\n");
	next = UINT64_MAX;
	assert_string_equal(read_from(events, &next, ROOM), "id: 1\nevent: shed\ndata: {}\n\n");
	events_close(events);
}

static void a_long_event_is_sent_without_its_fields(void **state)
{
	static char json[EVENTS_TEXT_MAX + 1];
	struct events *events = events_open(EVENTS_OF_LOG);
	uint64_t next = 1;

	(void)state;
	memset(json, ' ', sizeof json);
	events_add(events, "trouble", (struct slice){json, sizeof json});
	assert_string_equal(read_from(events, &next, ROOM),
	                    "id: 1\nevent: trouble\n"
	                    "data: {\"event\":\"trouble\",\"message\":\"too long: see the log\"}\n\n");
	events_close(events);
}

static void the_number_of_followers_is_bounded(void **state)
{
	struct events *events = events_open(EVENTS_OF_LOG);

	(void)state;
	for (int i = 0; i < EVENTS_STREAMS; i++)
		assert_true(events_follow(events));
	assert_false(events_follow(events));
	assert_int_equal(events_followers(events), EVENTS_STREAMS);
	events_stop_following(events);
	assert_true(events_follow(events));
	events_close(events);
}

static void count_up(void *context)
{
	++*(_Atomic int *)context;
}

static void loops_are_woken_while_clients_follow(void **state)
{
	struct events *events = events_open(EVENTS_OF_LOG);
	_Atomic int woken = 0;

	(void)state;
	events_wake(events, count_up, &woken);
	add_some(events, 1);
	assert_int_equal(woken, 0);
	assert_true(events_follow(events));
	add_some(events, 2);
	assert_int_equal(woken, 2);
	events_close(events);
}

enum { THREADS = 3, EACH = 2000 };

static void *add_many(void *events)
{
	add_some(events, EACH);
	return NULL;
}

/* Each event is read once and in order, or is reported as missed. */
static void threads_add_while_a_client_reads(void **state)
{
	struct events *events = events_open(EVENTS_OF_LOG);
	struct buffer out = {0};
	uint64_t next = 1, seen = 0, missed = 0;
	pthread_t threads[THREADS];

	(void)state;
	for (int i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, add_many, events), 0);
	while (next <= THREADS * EACH) {
		uint64_t number, last = next - 1;
		unsigned long long count;

		out.len = 0;
		next = events_read(events, next, 300, &out);
		buffer_add(&out, "", 1);
		for (char *at = out.data; (at = strstr(at, "data: {")) != NULL; at++)
			if (sscanf(at, "data: {\"count\":%llu}", &count) == 1)
				missed += count, last += count;
		for (char *at = out.data; (at = strstr(at, "id: ")) != NULL; at++, seen++) {
			number = strtoull(at + 4, NULL, 10);
			assert_int_equal(number, ++last);
		}
		assert_int_equal(next, last + 1);
	}
	assert_int_equal(seen + missed, THREADS * EACH);
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	buffer_free(&out);
	events_close(events);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_client_reads_from_its_next_event),
	    cmocka_unit_test(denials_have_no_numbers_and_a_name_of_their_own_for_missed_ones),
	    cmocka_unit_test(an_event_that_does_not_fit_comes_later_and_whole),
	    cmocka_unit_test(a_slow_client_gets_the_number_of_missed_events),
	    cmocka_unit_test(a_number_of_another_server_starts_over),
	    cmocka_unit_test(a_long_event_is_sent_without_its_fields),
	    cmocka_unit_test(the_number_of_followers_is_bounded),
	    cmocka_unit_test(loops_are_woken_while_clients_follow),
	    cmocka_unit_test(threads_add_while_a_client_reads),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
