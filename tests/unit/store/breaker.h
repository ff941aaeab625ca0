/* breaker.h: opens a store with one breaker, and makes calls on its one key. */
#ifndef TEST_STORE_BREAKER_H
#define TEST_STORE_BREAKER_H

#include <stdint.h>

#include "store/memory.h"

static struct algo_limit limit;
static struct store *store;
static struct algo_decision out;

static void begin(struct weir_breaker_options breaker)
{
	struct weir_limit_options options = {
	    .algorithm = WEIR_ALGORITHM_BREAKER, .keys = 100, .breaker = &breaker};

	assert_int_equal(store_open(&(struct weir_table_options){.capacity = 1000}, &store, NULL),
	                 WEIR_OK);
	assert_int_equal(algo_limit_init(&limit, &options, NULL), WEIR_OK);
	limit.identity = 1;
}

static void end(void)
{
	algo_limit_free(&limit);
	store_close(store);
}

static uint64_t run(struct algo_call call, uint64_t now_ns)
{
	const struct algo_limit *by = &limit;
	struct store_step step = {.store = store, .limit = by, .call = call, .at = moment_given(now_ns)};

	assert_int_equal(store_admit(store, by, store_hash(store, 1, "key", 3), &step.key), WEIR_OK);
	return store_run(&step, &by, &out);
}

#endif
