#include "simulate/report/hits.h"

#include <stdlib.h>

#include "base/number.h"
#include "base/os/os.h"

#define SLOTS_FIRST 1024

struct hits_key {
	uint64_t hash; /* 0: free */
	uint32_t asked, denied;
};

void hits_close(struct hits *hits)
{
	if (hits->keys)
		os_pages_unmap(hits->keys, (hits->mask + 1) * sizeof *hits->keys);
	hits->keys = NULL;
}

static struct hits_key *find(struct hits_key *keys, size_t mask, uint64_t hash)
{
	size_t i = hash & mask;

	while (keys[i].hash != 0 && keys[i].hash != hash)
		i = (i + 1) & mask;
	return &keys[i];
}

/* Without memory, the keys there are are all that are tracked. */
static bool grow(struct hits *hits)
{
	size_t mask = hits->keys ? 2 * hits->mask + 1 : SLOTS_FIRST - 1;
	struct hits_key *keys = os_pages_map((mask + 1) * sizeof *keys);

	if (!keys)
		return false;
	for (size_t i = 0; hits->keys && i <= hits->mask; i++)
		if (hits->keys[i].hash != 0)
			*find(keys, mask, hits->keys[i].hash) = hits->keys[i];
	hits_close(hits);
	hits->keys = keys;
	hits->mask = mask;
	return true;
}

static struct hits_key *take(struct hits *hits, uint64_t hash)
{
	struct hits_key *key = hits->keys ? find(hits->keys, hits->mask, hash) : NULL;

	if (key && key->hash != 0)
		return key;
	if (hits->count >= hits->keys_max)
		return NULL;
	if (!key || hits->count >= (hits->mask + 1) / 4 * 3) {
		if (!grow(hits))
			return NULL;
		key = find(hits->keys, hits->mask, hash);
	}
	hits->count++;
	key->hash = hash;
	return key;
}

void hits_add(struct hits *hits, uint64_t hash, bool denied)
{
	struct hits_key *key = take(hits, hash ? hash : 1);

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
	uint32_t *numbers = malloc((hits->count + 1) * sizeof *numbers);
	size_t n = 0, hit = 0;

	if (!numbers)
		return false;
	for (size_t i = 0; hits->keys && i <= hits->mask; i++)
		if (hits->keys[i].hash != 0)
			numbers[n++] = hits->keys[i].asked;
	*asked = spread_of(numbers, n);
	for (size_t i = 0; hits->keys && i <= hits->mask; i++)
		if (hits->keys[i].denied > 0)
			numbers[hit++] = hits->keys[i].denied;
	*denied = spread_of(numbers, hit);
	free(numbers);
	return true;
}
