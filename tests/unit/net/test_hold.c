/* Answers lines in later iterations: order, memory, timeouts and peers that leave meanwhile. */
#include "lines.h"

static void lines_behind_a_pending_one_wait_in_order(void **state)
{
	struct fixture *f = start(&NET_OPTIONS_DEFAULT, 10, 0);
	uint64_t begun_ns = os_monotonic_ns();
	int held = dial(f), other = dial(f);

	(void)state;
	say(held, "first\nhold 20\nhold 1\nlast\n");
	say(other, "other\n");
	expect(other, "other\n");
	expect(held, "first\nhold 20\n");
	assert_true(os_monotonic_ns() - begun_ns >= 20 * NS_PER_MS);
	expect(held, "hold 1\nlast\n");
	close(held);
	close(other);
	finish(f);
}

/* While another is answered so often that the loop has read all that it can. */
static void go_on(int other)
{
	for (int i = 0; i < 200; i++) {
		say(other, "x\n");
		expect(other, "x\n");
	}
}

static void a_connection_is_suspended_while_there_is_a_reason(void **state)
{
	struct fixture *f = start(&NET_OPTIONS_DEFAULT, 10, 0);
	int off = dial(f), other = dial(f);

	(void)state;
	say(off, "first\noff\nlast\n");
	expect(off, "first\n");
	say(other, "on 1\n");
	expect(other, "on 1\n");
	go_on(other);
	assert_int_equal(f->too_soon, 0);
	say(other, "on 2\n");
	expect(other, "on 2\n");
	expect(off, "last\n");
	close(off);
	close(other);
	finish(f);
}

static void input_beyond_the_bound_of_a_pending_connection_waits_in_the_kernel(void **state)
{
	struct net_options options = NET_OPTIONS_DEFAULT;
	enum { N = 200000, WIDTH = 8 };
	char *all = malloc(N * WIDTH + 1), *got = malloc(N * WIDTH);
	struct sender sender = {-1, all, N * WIDTH};
	struct fixture *f;
	pthread_t thread;
	int other;

	(void)state;
	options.input_max = 1 << 16;
	f = start(&options, 10, 0);
	sender.fd = dial(f);
	other = dial(f);
	say(sender.fd, "one\nhold\n");
	expect(sender.fd, "one\n");
	for (int i = 0; i < N; i++)
		snprintf(all + i * WIDTH, WIDTH + 1, "%07u\n", (unsigned)i % 10000000);
	assert_int_equal(pthread_create(&thread, NULL, send_all, &sender), 0);
	go_on(other);
	say(other, "go\n");
	expect(other, "go\n");
	expect(sender.fd, "hold\n");
	assert_int_equal(recv(sender.fd, got, N * WIDTH, MSG_WAITALL), N * WIDTH);
	assert_memory_equal(all, got, N * WIDTH);
	pthread_join(thread, NULL);
	close(sender.fd);
	close(other);
	finish(f);
	free(all);
	free(got);
}

static void the_peer_of_a_pending_answer_is_noticed_when_it_leaves(void **state)
{
	static const char *const said[] = {"hold\n", "hold\nmore\nhalf a li", "hold quit\n"};
	struct fixture *f = start(&NET_OPTIONS_DEFAULT, 10, 0);
	int other = dial(f);

	(void)state;
	for (int i = 0; i < 6; i++) {
		int held = dial(f);

		say(held, said[i % 3]);
		if (i < 3)
			go_on(other);
		close(held);
		for (int n = 0; f->closed <= i; n++) {
			assert_true(n < 1000);
			go_on(other);
		}
	}
	close(other);
	finish(f);
}

static void a_pending_answer_is_written_before_the_connection_ends(void **state)
{
	struct fixture *f = start(&NET_OPTIONS_DEFAULT, 10, 0);
	int fd = dial(f);

	(void)state;
	say(fd, "one\nhold quit\nnever\n");
	expect(fd, "one\n");
	say(fd, "nor this\n");
	f->due_ns = 0;
	net_loop_wake(f->loop);
	expect(fd, "hold quit\n");
	expect_end(fd);
	finish(f);
}

/* Not only when the loop happens to wake, as it does twice a second. */
static void the_alarm_runs_an_iteration_at_its_time(void **state)
{
	struct fixture *f = start(&NET_OPTIONS_DEFAULT, 10, 0);
	uint64_t begun_ns = os_monotonic_ns();
	int fd = dial(f);

	(void)state;
	for (int i = 0; i < 20; i++) {
		say(fd, "hold 1\n");
		expect(fd, "hold 1\n");
	}
	assert_true(os_monotonic_ns() - begun_ns < 5 * NS_PER_S);
	close(fd);
	finish(f);
}

/* Timeouts are looked at every half second. */
static void no_timeout_applies_to_a_pending_answer(void **state)
{
	struct net_options options = NET_OPTIONS_DEFAULT;
	struct fixture *f;
	int fd;

	(void)state;
	options.request_timeout_ms = 1;
	f = start(&options, 10, 0); /* for an idle one the line might come too late */
	fd = dial(f);
	say(fd, "hold 600\nhalf");
	expect(fd, "hold 600\n");
	expect_end(fd);
	finish(f);
}

static void stopping_waits_for_pending_answers_in_bounded_time(void **state)
{
	struct net_options options = NET_OPTIONS_DEFAULT;

	(void)state;
	for (int in_time = 0; in_time <= 1; in_time++) {
		struct fixture *f;
		int fd;

		options.stop_timeout_ms = in_time ? 20000 : 10;
		f = start(&options, 10, 0);
		fd = dial(f);
		say(fd, in_time ? "one\nhold 20\n" : "one\nhold\n");
		expect(fd, "one\n");
		finish(f);
		if (in_time)
			expect(fd, "hold 20\n");
		expect_end(fd);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(lines_behind_a_pending_one_wait_in_order),
	    cmocka_unit_test(a_connection_is_suspended_while_there_is_a_reason),
	    cmocka_unit_test(input_beyond_the_bound_of_a_pending_connection_waits_in_the_kernel),
	    cmocka_unit_test(the_peer_of_a_pending_answer_is_noticed_when_it_leaves),
	    cmocka_unit_test(a_pending_answer_is_written_before_the_connection_ends),
	    cmocka_unit_test(the_alarm_runs_an_iteration_at_its_time),
	    cmocka_unit_test(no_timeout_applies_to_a_pending_answer),
	    cmocka_unit_test(stopping_waits_for_pending_answers_in_bounded_time),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
