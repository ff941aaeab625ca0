/*
 * histogram.c: merges histograms, and computes their quantiles. A bucket counts the values of a
 * range whose width is a power of two: 1 for small values, about a constant share of larger ones.
 */
#include "stats/histogram.h"

#include <math.h>

/* Returns the binary logarithm of the bucket's width. */
static unsigned shift_of(unsigned bucket)
{
	return bucket < 2u << HISTOGRAM_BITS ? 0 : (bucket >> HISTOGRAM_BITS) - 1;
}

/* Returns the least value that the bucket counts. */
static uint64_t least_of_bucket(unsigned bucket)
{
	unsigned shift = shift_of(bucket);

	return (uint64_t)(bucket - (shift << HISTOGRAM_BITS)) << shift;
}

/* Returns the least value of the bucket that counts `value`. */
uint64_t histogram_floor(uint64_t value)
{
	return least_of_bucket(histogram_bucket(value));
}

void histogram_add(struct histogram *to, const struct histogram *from)
{
	for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++)
		to->buckets[i] += from->buckets[i];
	to->count += from->count;
	if (from->max > to->max)
		to->max = from->max;
}

/* Returns the middle of the bucket that contains the quantile, but at most the largest value. */
uint64_t histogram_quantile(const struct histogram *histogram, double q)
{
	uint64_t rank = (uint64_t)ceil(q * (double)histogram->count), values = 0;

	if (rank >= histogram->count) /* the highest rank, whose value is known exactly */
		return histogram->max;
	for (unsigned i = 0; i < HISTOGRAM_BUCKETS; i++) {
		uint64_t middle = least_of_bucket(i) + (UINT64_C(1) << shift_of(i)) / 2;

		values += histogram->buckets[i];
		if (values >= rank)
			return middle < histogram->max ? middle : histogram->max;
	}
	return histogram->max;
}

/* Returns how many values are in buckets above that of `value`. */
uint64_t histogram_above(const struct histogram *histogram, uint64_t value)
{
	uint64_t sum = 0;

	for (unsigned i = histogram_bucket(value) + 1; i < HISTOGRAM_BUCKETS; i++)
		sum += histogram->buckets[i];
	return sum;
}
