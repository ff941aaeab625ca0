/* Tests sliding_log: the names of entries, refunds by name, and refunds that crash in between. */
#include "steps.h"

static uint64_t take(uint64_t cost, uint64_t now_ns)
{
	assert_true(call(ALGO_ACQUIRE, cost, now_ns));
	return state.until_ns;
}

static uint64_t give_back(uint64_t cost, uint64_t until_ns, uint64_t now_ns)
{
	assert_true(call_until(ALGO_REFUND, cost, until_ns, now_ns, 100));
	return state.limit.quota - state.out.remaining;
}

/* Twice; into a later entry; of one that is over: all of the same instant, too. */
static void a_refund_from_a_log_takes_out_its_entry_or_nothing(void **unused)
{
	uint64_t names[5], later_ns = NOW + NS_PER_S / 2;

	(void)unused;
	for (unsigned apart = 0; apart < 2; apart++) {
		begin(WEIR_ALGORITHM_SLIDING_LOG, 20, NS_PER_S, 0);
		for (unsigned i = 0; i < 5; i++)
			names[i] = take(i + 1, NOW + apart * i * NS_PER_S / 10);
		assert_int_equal(give_back(2, names[1], later_ns), 13);
		assert_int_equal(give_back(2, names[1], later_ns), 13);
		assert_int_equal(give_back(5, names[4], later_ns), 8);
		assert_int_equal(give_back(5, names[4], later_ns), 8);
		assert_int_equal(give_back(3, names[2] + 1000, later_ns), 8);
		take(7, later_ns);
		assert_int_equal(give_back(1, names[0], later_ns), 14);
		assert_int_equal(give_back(1, names[0], NOW + NS_PER_S), apart ? 14 : 7);
		assert_int_equal(give_back(4, names[3], NOW + NS_PER_S), apart ? 10 : 7);
		assert_int_equal(admitted(30, later_ns + NS_PER_S - 1), 13);
		call(ALGO_PEEK, 1, later_ns + NS_PER_S);
		assert_int_equal(state.out.remaining, 7);
		assert_int_equal(give_back(7, later_ns + NS_PER_S, later_ns + NS_PER_S), 13);
	}
}

/* An instant's entries are over with it, whatever their names are. */
static void entries_of_one_instant_have_names_of_their_own_and_end_together(void **unused)
{
	uint64_t name = 0;

	(void)unused;
	begin(WEIR_ALGORITHM_SLIDING_LOG, 100, NS_PER_S, 0);
	for (unsigned i = 0; i < 100; i++) {
		uint64_t next = take(1, NOW);

		assert_true(next > name);
		name = next;
	}
	assert_int_equal(admitted(200, NOW + NS_PER_S - 1), 0);
	assert_int_equal(state.out.retry_after_ns, 1);
	call(ALGO_PEEK, 1, NOW + NS_PER_S);
	assert_int_equal(state.out.remaining, 100);
	assert_int_equal(state.out.reset_after_ns, 0);
	assert_int_equal(admitted(200, NOW + NS_PER_S), 100);
	begin(WEIR_ALGORITHM_SLIDING_LOG, 1, NS_PER_S, 0); /* nor are they used again */
	name = take(1, NOW);
	give_back(1, name, NOW);
	assert_int_not_equal(take(1, NOW), name);
	assert_int_equal(give_back(1, name, NOW), 1);
	call(ALGO_RESET, 0, NOW);
	assert_true(take(1, NOW) > name + 1);
}

/* As times in whole seconds have it: all that came with one tick is out when that is over. */
static void long_logs_end_with_their_ticks(void **unused)
{
	static const uint64_t counts[] = {128, 200, 1000, 10000};

	(void)unused;
	for (unsigned i = 0; i < 8; i++) {
		uint64_t tick_ns = i & 1 ? NS_PER_S : NS_PER_MS, end_ns = NOW + 60 * tick_ns, first, middle;
		unsigned count = (unsigned)counts[i / 2];

		begin(WEIR_ALGORITHM_SLIDING_LOG, count, 60 * tick_ns, 0);
		take(1, NOW - 7 * tick_ns); /* all of it given back, so that nothing of it tells */
		call(ALGO_REFUND, 1, NOW - 7 * tick_ns);
		first = take(1, NOW);
		middle = take(1, NOW);
		take(1, NOW);
		give_back(1, first, NOW);
		give_back(1, middle, NOW);
		assert_int_equal(admitted(count, NOW), count - 1);
		assert_int_equal(state.out.retry_after_ns, 60 * tick_ns);
		assert_int_equal(state.out.reset_after_ns, 60 * tick_ns);
		assert_int_equal(admitted(1, end_ns - 1), 0);
		assert_int_equal(state.out.retry_after_ns, 1);
		assert_int_equal(admitted(count + 1, end_ns), count);
		call(ALGO_RESET, 0, end_ns);
		first = take(1, end_ns);
		take(1, end_ns);
		give_back(1, first, end_ns);
		assert_int_equal(state.out.reset_after_ns, 60 * tick_ns);
		call(ALGO_PEEK, 1, end_ns + 60 * tick_ns);
		assert_int_equal(state.out.remaining, count);
	}
}

/* The rest of it ends with the entry that came next. A name is used up by a part. */
static void a_part_of_an_entry_is_refunded(void **unused)
{
	static const uint64_t counts[] = {20, 127, 128, 1000, 10000};
	static const uint64_t gap_ns = NS_PER_S / 10;

	(void)unused;
	for (unsigned i = 0; i < 5; i++) {
		unsigned many = (unsigned)counts[i] - 20;
		uint64_t first, second, third, end_ns = NOW + NS_PER_S;

		begin(WEIR_ALGORITHM_SLIDING_LOG, counts[i], NS_PER_S, 0);
		first = take(5 + many, NOW);
		assert_int_equal(give_back(1, first, NOW), 4 + many);
		second = take(4, NOW + gap_ns);
		assert_int_equal(give_back(1 + many, first, NOW + gap_ns), 7); /* 3 end with the header's */
		assert_int_equal(give_back(1, first, NOW + gap_ns), 7);
		third = take(2, NOW + 2 * gap_ns);
		assert_int_equal(give_back(3, second, NOW + 2 * gap_ns), 6);
		assert_int_equal(give_back(1, second, NOW + 2 * gap_ns), 6);
		take(1, NOW + 3 * gap_ns);
		assert_int_equal(give_back(2, third, NOW + 3 * gap_ns), 5); /* which took over 4 more */
		assert_int_equal(give_back(2, third, NOW + 3 * gap_ns), 5);
		call(ALGO_PEEK, 1, end_ns + 3 * gap_ns - 1);
		assert_int_equal(state.out.remaining, counts[i] - 5);
		call(ALGO_PEEK, 1, end_ns + 3 * gap_ns);
		assert_int_equal(state.out.remaining, counts[i]);
	}
}

/*
 * Refunds a part of an entry in the middle of a log, with entries of one instant or of several. The
 * next entry takes over the rest.
 */
static void the_rest_of_an_entry_counts_until_the_next_entry_ends(void **unused)
{
	(void)unused;
	for (unsigned count = 100; count <= 1000; count += 900) {
		for (unsigned apart = 0; apart < 2; apart++) {
			uint64_t names[6], later_ns = NOW + NS_PER_S / 2, ms = apart * NS_PER_MS;
			/* The header of a long log may end later than it should, by its lead. */
			uint64_t end_ns = NOW + NS_PER_S + (apart || count < 128 ? 0 : 4);

			begin(WEIR_ALGORITHM_SLIDING_LOG, count, NS_PER_S, 0);
			for (unsigned i = 0; i < 6; i++)
				names[i] = take(3, NOW + i * ms);
			assert_int_equal(give_back(1, names[1], later_ns), 17);
			assert_int_equal(give_back(2, names[4], later_ns), 15);
			assert_int_equal(give_back(3, names[2], later_ns), 12);
			assert_int_equal(give_back(3, names[0], later_ns), 9);
			call(ALGO_PEEK, 1, end_ns + 2 * ms);
			assert_int_equal(count - state.out.remaining, apart ? 9 : 0);
			call(ALGO_PEEK, 1, end_ns + 3 * ms);
			assert_int_equal(count - state.out.remaining, apart ? 4 : 0);
			assert_int_equal(admitted(2 * count, later_ns), count - 9);
			call(ALGO_PEEK, 1, end_ns + 5 * ms);
			assert_int_equal(state.out.remaining, 9);
		}
	}
}

static void a_partial_refund_that_crashes_anywhere_is_made_once(void **unused)
{
	(void)unused;
	for (unsigned wants = 0; wants < 16; wants++) {
		for (unsigned n = 0; n < 3; n++) {
			uint64_t names[4], later_ns = NOW + NS_PER_S / 2, in_use;

			begin(WEIR_ALGORITHM_SLIDING_LOG, 20, NS_PER_S, 0);
			for (unsigned i = 0; i < 4; i++)
				names[i] = take(4, NOW + i * NS_PER_MS);
			call_until(ALGO_REFUND, 3, names[n], later_ns, wants);
			in_use = give_back(3, names[n], later_ns);
			assert_in_range(in_use, 13, 16); /* what was not closed yet counts */
			for (unsigned i = 0; i < 4; i++)
				if (i != n)
					in_use = give_back(4, names[i], later_ns);
			assert_in_range(in_use, 1, 4); /* nobody may have come by to close it */
			assert_int_equal(admitted(30, later_ns), 20 - in_use);
			assert_int_equal(admitted(30, later_ns + NS_PER_S), 20);
		}
	}
}

/* Others wait for their room, which they would not have had anyway; none get more. */
static void a_refund_that_crashes_anywhere_refunds_nothing_twice(void **unused)
{
	(void)unused;
	for (unsigned wants = 0; wants < 16; wants++) {
		uint64_t names[4], later_ns = NOW + NS_PER_S / 2;

		begin(WEIR_ALGORITHM_SLIDING_LOG, 11, NS_PER_S, 0);
		for (unsigned i = 0; i < 4; i++)
			names[i] = take(i + 1, NOW + i * NS_PER_MS);
		call_until(ALGO_REFUND, 1, names[0], later_ns, wants);
		assert_in_range(give_back(1, names[0], later_ns), 9, 10);
		assert_in_range(give_back(2, names[1], later_ns), 7, 8);
		assert_int_equal(give_back(3, names[2], later_ns) + admitted(20, later_ns), 11);
		assert_in_range(give_back(1, names[0], later_ns), 11, 11);
		assert_in_range(give_back(4, names[3], later_ns), 7, 7);
		call(ALGO_PEEK, 1, NOW + NS_PER_S + 3 * NS_PER_MS); /* what was lost ends with the newest */
		assert_in_range(state.out.remaining, 4, 5);
		assert_int_equal(admitted(20, later_ns + NS_PER_S), 11);
	}
}

/* A refund stalls while two requests come, which may stand behind what it has marked. */
static void a_refund_with_requests_in_between_refunds_all(void **unused)
{
	(void)unused;
	for (unsigned wants = 0; wants < 16; wants++) {
		for (unsigned back = 0; back < 5; back++) { /* of this entry by its name, of 0 without */
			struct algo_call refund = {ALGO_REFUND, .cost = back ? 1 : 3};
			struct record_step on = {.now_ns = NOW};

			begin(WEIR_ALGORITHM_SLIDING_LOG, 11, NS_PER_S, 0);
			for (unsigned i = 4; i > 0; i--)
				if (take(1, NOW) && i == back)
					refund.until_ns = state.until_ns;
			go_on(&on, &refund, wants);
			take(1, NOW);
			take(1, NOW);
			assert_true(go_on(&on, &refund, 100));
			assert_int_equal(admitted(11, NOW), back ? 6 : 8);
		}
	}
}

/* A header that was closed for a wider record: nobody knows what it was. */
static void a_log_whose_narrower_record_is_lost_counts_as_full(void **unused)
{
	struct cell closed = cell_make(TAG, NOW + NS_PER_S, 49, RECORD_MOVED);

	(void)unused;
	begin(WEIR_ALGORITHM_SLIDING_LOG, 100, NS_PER_S, 0);
	state.header = closed;
	assert_true(call_until(ALGO_PEEK, 60, 0, NOW, 0)); /* denied, it writes nothing */
	for (unsigned i = 0; i < 2; i++) {
		assert_false(call(ALGO_ACQUIRE, 60, NOW));
		assert_int_equal(state.out.remaining, 0);
	}
	state.header = closed;
	call(ALGO_REFUND, 10, NOW);
	assert_int_equal(state.out.remaining, 10);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(a_refund_from_a_log_takes_out_its_entry_or_nothing),
	    cmocka_unit_test(entries_of_one_instant_have_names_of_their_own_and_end_together),
	    cmocka_unit_test(long_logs_end_with_their_ticks),
	    cmocka_unit_test(a_part_of_an_entry_is_refunded),
	    cmocka_unit_test(the_rest_of_an_entry_counts_until_the_next_entry_ends),
	    cmocka_unit_test(a_partial_refund_that_crashes_anywhere_is_made_once),
	    cmocka_unit_test(a_refund_that_crashes_anywhere_refunds_nothing_twice),
	    cmocka_unit_test(a_refund_with_requests_in_between_refunds_all),
	    cmocka_unit_test(a_log_whose_narrower_record_is_lost_counts_as_full),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
