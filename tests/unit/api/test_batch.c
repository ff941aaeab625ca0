/*
 * A batch decides as its requests one by one would, in their order: every kind of
 * limit, keys that come again, requests that are refused, tables from nearly empty
 * to overfull, so that keys are at home, in their run, or new.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>
#include <weir/weir.h>

#define NOW    UINT64_C(1700000000000000000)
#define SECRET (const uint8_t *)"0123456789abcdef"
#define LONGEST 70 /* of a batch: more than are on their way at once, no multiple of a block */

static const struct weir_limit_options kinds[] = {
    {.name = "whole", .rate = {100, 1, WEIR_UNIT_MINUTE}, .burst = 5},
    {.name = "fractions", .rate = {7, 1, WEIR_UNIT_SECOND}, .burst = 3},
    {.name = "calendar", .algorithm = WEIR_ALGORITHM_FIXED_WINDOW, .rate = {4, 1, WEIR_UNIT_HOUR}},
    {.name = "resetting",
     .algorithm = WEIR_ALGORITHM_RESETTING_BUCKET,
     .rate = {3, 50, WEIR_UNIT_MILLISECOND}},
};
#define KINDS (sizeof kinds / sizeof *kinds)

static uint64_t draw(uint64_t *seed, uint64_t below)
{
	*seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
	return (*seed >> 33) % below;
}

static void assert_same(const struct weir_decision *a, const struct weir_decision *b)
{
	assert_int_equal(a->allowed, b->allowed);
	assert_int_equal(a->reason, b->reason);
	assert_int_equal(a->quota, b->quota);
	assert_int_equal(a->remaining, b->remaining);
	assert_int_equal(a->retry_after_ns, b->retry_after_ns);
	assert_int_equal(a->reset_after_ns, b->reset_after_ns);
	assert_int_equal(a->window_ns, b->window_ns);
	assert_string_equal(a->limit, b->limit);
	assert_null(a->rule);
	assert_null(a->result);
	assert_int_equal(a->paced, b->paced);
	assert_int_equal(a->wait_ns, b->wait_ns);
	assert_false(a->degraded);
	assert_int_equal(a->reserved[0], 0);
}

static void decides_as_one_by_one(void **state)
{
	static const char bytes[2000] = "a key is any bytes, and this one too long";
	const struct weir_table_options options = {.capacity = 300, .secret = SECRET};
	weir_table *batched, *single;
	weir_limit *limits[KINDS];
	uint64_t seed = 1, now = NOW;

	(void)state;
	assert_int_equal(weir_table_open(&options, &batched, NULL), 0);
	assert_int_equal(weir_table_open(&options, &single, NULL), 0);
	for (size_t i = 0; i < KINDS; i++)
		assert_int_equal(weir_limit_open(&kinds[i], &limits[i], NULL), 0);
	for (int round = 0; round < 600; round++) {
		struct weir_request requests[LONGEST];
		struct weir_decision decisions[LONGEST], d;
		uint64_t keys[LONGEST][3];
		size_t n = draw(&seed, LONGEST + 1);
		int first = WEIR_OK, found;

		now += draw(&seed, 40000000);
		memset(decisions, 0xaa, sizeof decisions);
		for (size_t i = 0; i < n; i++) {
			size_t len = 1 + draw(&seed, sizeof keys[i]);

			memset(keys[i], (int)draw(&seed, 1 + (uint64_t)round / 4), sizeof keys[i]);
			requests[i] = (struct weir_request){
			    limits[draw(&seed, KINDS)], {keys[i], len}, draw(&seed, 3), 99};
			if (draw(&seed, 20) == 0)
				requests[i].cost = 1000;
			if (draw(&seed, 20) == 0)
				requests[i].key = (struct weir_key){bytes, sizeof bytes};
		}
		found = weir_acquire_batch(batched, requests, n, now, decisions);
		for (size_t i = 0; i < n; i++) {
			const struct weir_request *r = &requests[i];
			int status = weir_acquire(single, r->limit, r->key, r->cost, now, &d);

			first = first ? first : status;
			assert_int_equal(r->status, status);
			if (status == WEIR_OK)
				assert_same(&decisions[i], &d);
		}
		assert_int_equal(found, first);
	}
	weir_table_close(batched);
	weir_table_close(single);
	for (size_t i = 0; i < KINDS; i++)
		weir_limit_close(limits[i]);
}

int main(void)
{
	const struct CMUnitTest tests[] = {cmocka_unit_test(decides_as_one_by_one)};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
