/* Compares the share that each priority loses with a model that sheds one class after the other. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "algo/priority/priority.h"
#include "base/prng.h"
#include "base/number.h"

#define ROUNDS 20000

static uint64_t below(uint64_t bound)
{
	return prng_next() % bound;
}

/* Small and large demands, many classes without any. */
static struct priority_demand random_demand(void)
{
	struct priority_demand demand = {{0}};

	for (unsigned i = 0; i < PRIORITY_CLASSES; i++)
		if (below(2))
			demand.calls[i] = below(UINT64_C(1) << (1 + below(59)));
	return demand;
}

static uint64_t random_share(void)
{
	switch (below(5)) {
	case 0:
		return below(2) * PRIORITY_ALL;
	case 1:
		return PRIORITY_ALL / 10 * below(11);
	case 2:
		return below(4);
	default:
		return below(PRIORITY_ALL + 1);
	}
}

static uint64_t total_of(const struct priority_demand *demand)
{
	uint64_t total = 0;

	for (unsigned i = 0; i < PRIORITY_CLASSES; i++)
		total += demand->calls[i];
	return total;
}

/* The lowest class gives what it has, then the next, until the whole share is shed. */
static void shares_are_those_of_the_model(void **unused)
{
	(void)unused;
	prng_seed(1);
	for (int round = 0; round < ROUNDS; round++) {
		struct priority_demand demand = random_demand();
		uint64_t share = random_share();
		u128 left = (u128)total_of(&demand) * share;

		if (total_of(&demand) == 0)
			continue;
		for (unsigned i = PRIORITY_CLASSES; i-- > 0;) {
			u128 whole = (u128)demand.calls[i] * PRIORITY_ALL;
			u128 given = left < whole ? left : whole;

			if (demand.calls[i] > 0)
				assert_int_equal(priority_share(share, &demand, i), (uint64_t)(given / demand.calls[i]));
			left -= given;
		}
		assert_true(left == 0);
	}
}

/* Less than one 2^63th of a request is lost by rounding, for each request of one class. */
static void the_total_share_is_kept(void **unused)
{
	(void)unused;
	prng_seed(2);
	for (int round = 0; round < ROUNDS; round++) {
		struct priority_demand demand = random_demand();
		uint64_t share = random_share(), most = 0;
		u128 shed = 0, wanted = (u128)total_of(&demand) * share;

		for (unsigned i = 0; i < PRIORITY_CLASSES; i++) {
			shed += (u128)demand.calls[i] * priority_share(share, &demand, i);
			most = u64_max(most, demand.calls[i]);
		}
		assert_true(shed <= wanted);
		assert_true(wanted - shed <= most);
	}
}

static void a_lower_priority_never_loses_less(void **unused)
{
	(void)unused;
	prng_seed(3);
	for (int round = 0; round < ROUNDS; round++) {
		struct priority_demand demand = random_demand();
		uint64_t share = random_share(), more = share + below(PRIORITY_ALL - share + 1);

		for (unsigned i = 0; i < PRIORITY_CLASSES; i++) {
			if (i > 0)
				assert_true(priority_share(share, &demand, i) >=
				            priority_share(share, &demand, i - 1));
			assert_true(priority_share(more, &demand, i) >= priority_share(share, &demand, i));
		}
	}
}

/* A class loses something only if all that is below it is lost whole. */
static void the_lowest_goes_first(void **unused)
{
	(void)unused;
	prng_seed(4);
	for (int round = 0; round < ROUNDS; round++) {
		struct priority_demand demand = random_demand();
		uint64_t share = random_share();

		for (unsigned i = 0; i < PRIORITY_CLASSES; i++)
			for (unsigned low = i + 1; low < PRIORITY_CLASSES; low++)
				if (demand.calls[low] > 0 && priority_share(share, &demand, i) > 0)
					assert_int_equal(priority_share(share, &demand, low), PRIORITY_ALL);
	}
}

static void one_class_alone_loses_the_share_itself(void **unused)
{
	(void)unused;
	prng_seed(5);
	for (int round = 0; round < ROUNDS; round++) {
		struct priority_demand demand = {{0}};
		uint64_t share = random_share();
		unsigned own = (unsigned)below(PRIORITY_CLASSES);

		assert_int_equal(priority_share(share, &demand, own), share);
		demand.calls[own] = 1 + below(UINT64_C(1) << 40);
		assert_int_equal(priority_share(share, &demand, own), share);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(shares_are_those_of_the_model),
	    cmocka_unit_test(the_total_share_is_kept),
	    cmocka_unit_test(a_lower_priority_never_loses_less),
	    cmocka_unit_test(the_lowest_goes_first),
	    cmocka_unit_test(one_class_alone_loses_the_share_itself),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
