/* Numbers of 256 bits: what one operation does, another undoes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "base/u256.h"

static const u128 all = ~(u128)0;

static void assert_limbs(struct u256 found, uint64_t l0, uint64_t l1, uint64_t l2, uint64_t l3)
{
	assert_true(found.limb[0] == l0 && found.limb[1] == l1 && found.limb[2] == l2 &&
	            found.limb[3] == l3);
}

static void products_and_sums_carry_through_all_limbs(void **state)
{
	struct u256 square = u256_product(all, all); /* 2^256 - 2^129 + 1 */

	(void)state;
	assert_limbs(square, 1, 0, UINT64_MAX - 1, UINT64_MAX);
	assert_limbs(u256_sum(square, u256_product(all, 1)), 0, 0, UINT64_MAX, UINT64_MAX);
	assert_limbs(u256_sum(u256_product(all, all), u256_product(all, 2)), UINT64_MAX, UINT64_MAX,
	             UINT64_MAX, UINT64_MAX);
	assert_limbs(u256_product(0, all), 0, 0, 0, 0);
	assert_limbs(u256_times(u256_product(all, 1), UINT64_MAX), 1, UINT64_MAX, UINT64_MAX - 1, 0);
}

static void a_product_is_divided_by_its_factors(void **state)
{
	static const uint64_t factors[] = {1, 2, 3, 10, UINT64_C(1) << 32, UINT64_MAX - 58, UINT64_MAX};

	(void)state;
	for (size_t i = 0; i < sizeof factors / sizeof *factors; i++)
		for (size_t j = 0; j < sizeof factors / sizeof *factors; j++) {
			u128 a = (u128)factors[i] * factors[j];
			struct u256 number = u256_times(u256_product(a, factors[i]), factors[j]);

			assert_int_equal(u256_divide(&number, factors[i]), 0);
			assert_int_equal(u256_divide(&number, factors[j]), 0);
			assert_limbs(number, (uint64_t)a, (uint64_t)(a >> 64), 0, 0);
			number = u256_sum(u256_times(number, factors[i]), u256_product(factors[i] - 1, 1));
			assert_int_equal(u256_divide(&number, factors[i]), factors[i] - 1);
			assert_limbs(number, (uint64_t)a, (uint64_t)(a >> 64), 0, 0);
		}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(products_and_sums_carry_through_all_limbs),
	    cmocka_unit_test(a_product_is_divided_by_its_factors),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
