/* histogram.c: merges histograms, and computes their quantiles. */
#include "stats/histogram.h"

#include <math.h>

static unsigned shift_of(unsigned bucket)
{
	return bucket < 2u << HISTOGRAM_BITS ? 0 : (bucket >> HISTOGRAM_BITS) - 1;
}

static uint64_t least_of(unsigned bucket)
{
	unsigned shift = shift_of(bucket);

	return (uint64_t)(bucket - (shift << HISTOGRAM_BITS)) << shift;
}

uint64_t histogram_floor(uint64_t value)
{
	return least_of(histogram_bucket(value));
}

void histogram_add(struct histogram *to, const struct histogram *from)
{
	for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++)
		to->buckets[i] += from->buckets[i];
	to->count += from->count;
	if (from->max > to->max)
		to->max = from->max;
}

uint64_t histogram_quantile(const struct histogram *histogram, double q)
{
	uint64_t rank = (uint64_t)ceil(q * (double)histogram->count), seen = 0;

	for (unsigned i = 0; rank < histogram->count && i < HISTOGRAM_BUCKETS; i++) {
		uint64_t middle = least_of(i) + (UINT64_C(1) << shift_of(i)) / 2;

		seen += histogram->buckets[i];
		if (seen >= rank)
			return middle < histogram->max ? middle : histogram->max;
	}
	return histogram->max;
}

uint64_t histogram_above(const struct histogram *histogram, uint64_t value)
{
	uint64_t sum = 0;

	for (unsigned i = histogram_bucket(value) + 1; i < HISTOGRAM_BUCKETS; i++)
		sum += histogram->buckets[i];
	return sum;
}
