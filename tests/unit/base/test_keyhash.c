/* The hash of keys: every byte counts, and so do length and salt. */
#include "base/keyhash.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

static struct keyhash make(uint64_t k0)
{
	struct hash_key secret = {k0, 99};
	struct keyhash hash;

	keyhash_init(&hash, &secret);
	return hash;
}

static const size_t lengths[] = {0, 1, 2, 3, 4, 5, 7, 8, 9, 15, 16, 17, 31, 32, 100, 1023, 1024, 1025, 3000};
#define LENGTHS (sizeof lengths / sizeof *lengths)

/* A flipped bit changes about half of the 64 result bits, on the average over all bits. */
static void test_every_bit_of_a_key_counts(void **context)
{
	struct keyhash h = make(1);
	unsigned char key[3001] = {0};

	(void)context;
	for (size_t l = 0; l < LENGTHS; l++) {
		uint64_t base = keyhash(&h, 5, key, lengths[l]), changed = 0;

		for (size_t bit = 0; bit < 8 * lengths[l]; bit++) {
			uint64_t hash;

			key[bit / 8] ^= (unsigned char)(1 << bit % 8);
			hash = keyhash(&h, 5, key, lengths[l]);
			key[bit / 8] ^= (unsigned char)(1 << bit % 8);
			assert_true(hash != base);
			changed += (uint64_t)__builtin_popcountll(hash ^ base);
		}
		if (lengths[l] > 0)
			assert_in_range(changed, 8 * lengths[l] * 24, 8 * lengths[l] * 40);
	}
}

static void test_length_salt_and_secret_count(void **context)
{
	struct keyhash h = make(1), other = make(2);
	unsigned char zeros[3001] = {0};
	uint64_t seen[LENGTHS];

	(void)context;
	for (size_t l = 0; l < LENGTHS; l++) {
		seen[l] = keyhash(&h, 5, zeros, lengths[l]);
		for (size_t before = 0; before < l; before++)
			assert_true(seen[l] != seen[before]);
		assert_true(seen[l] != keyhash(&h, 6, zeros, lengths[l]));
		assert_true(seen[l] != keyhash(&other, 5, zeros, lengths[l]));
	}
}

/* Keys end where they end: the bytes behind are neither read nor hashed (the sanitizer looks on). */
static void test_nothing_behind_the_key_is_read(void **context)
{
	struct keyhash h = make(1);

	(void)context;
	for (size_t l = 0; l < LENGTHS; l++) {
		unsigned char *exact = malloc(lengths[l] ? lengths[l] : 1);
		unsigned char longer[3002];

		memset(exact, 7, lengths[l]);
		memset(longer, 9, sizeof longer);
		memset(longer + 1, 7, lengths[l]); /* at an odd address */
		assert_true(keyhash(&h, 5, exact, lengths[l]) == keyhash(&h, 5, longer + 1, lengths[l]));
		free(exact);
	}
}

/* Counters and keys that differ little spread evenly over the places of a table. */
static void test_similar_keys_spread_evenly(void **context)
{
	enum { BUCKETS = 1024, KEYS = 1024 * 256 };
	struct keyhash h = make(1);
	static unsigned top[BUCKETS], low[BUCKETS];
	double chi_top = 0, chi_low = 0;

	(void)context;
	for (uint64_t i = 0; i < KEYS; i++) {
		char key[20] = "user:";
		uint64_t hash;

		memcpy(key + 12, &i, sizeof i);
		hash = keyhash(&h, 5, key, sizeof key);
		top[hash >> 54]++;
		low[hash % BUCKETS]++;
	}
	for (int i = 0; i < BUCKETS; i++) {
		chi_top += (top[i] - 256.0) * (top[i] - 256.0) / 256;
		chi_low += (low[i] - 256.0) * (low[i] - 256.0) / 256;
	}
	/* 1023 degrees of freedom: 1023 and six standard deviations of 45 */
	assert_true(chi_top < 1023 + 6 * 45);
	assert_true(chi_low < 1023 + 6 * 45);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(test_every_bit_of_a_key_counts),
	    cmocka_unit_test(test_length_salt_and_secret_count),
	    cmocka_unit_test(test_nothing_behind_the_key_is_read),
	    cmocka_unit_test(test_similar_keys_spread_evenly),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
