/*
 * hits.c: counts the requests and denials of each key, and computes percentiles of these counts. A
 * key is "hit" if a request of it was denied.
 */
#include "simulate/report/hits.h"

#include <stdlib.h>

#include "base/number.h"

struct hits_key {
	uint64_t hash;
	uint32_t asked, denied;
};

void hits_open(struct hits *hits, uint64_t keys_max)
{
	*hits = (struct hits){.keys = MAP_OF(struct hits_key, keys_max)};
}

void hits_close(struct hits *hits)
{
	map_free(&hits->keys);
}

void hits_add(struct hits *hits, uint64_t hash, bool denied)
{
	struct hits_key *key = map_add(&hits->keys, hash); /* NULL without memory, or beyond keys_max */

	if (!key)
		return;
	key->asked += key->asked < UINT32_MAX;
	hits->hit += denied && key->denied == 0;
	key->denied += denied && key->denied < UINT32_MAX;
}

static int by_number(const void *a, const void *b)
{
	uint32_t left = *(const uint32_t *)a, right = *(const uint32_t *)b;

	return (left > right) - (left < right);
}

static struct hits_spread spread_of(uint32_t *numbers, size_t n)
{
	if (n == 0)
		return (struct hits_spread){0};
	qsort(numbers, n, sizeof *numbers, by_number);
	return (struct hits_spread){
	    .p50 = numbers[ceil_div(n * 50, 100) - 1],
	    .p90 = numbers[ceil_div(n * 90, 100) - 1],
	    .p99 = numbers[ceil_div(n * 99, 100) - 1],
	    .max = numbers[n - 1],
	};
}

bool hits_spreads(const struct hits *hits, struct hits_spread *asked, struct hits_spread *denied)
{
	uint32_t *numbers = malloc((hits->keys.count + 1) * sizeof *numbers);
	const struct hits_key *key;
	size_t n = 0, hit = 0;

	if (!numbers)
		return false;
	for (size_t at = 0; (key = map_next(&hits->keys, &at));)
		numbers[n++] = key->asked;
	*asked = spread_of(numbers, n);
	for (size_t at = 0; (key = map_next(&hits->keys, &at));)
		if (key->denied > 0)
			numbers[hit++] = key->denied;
	*denied = spread_of(numbers, hit);
	free(numbers);
	return true;
}
