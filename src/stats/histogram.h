/*
 * histogram.h: counts durations in log-linear buckets, in bounded memory.
 *
 * Each power of two is cut into 128 equal buckets, so that a bucket is at most
 * 1/128 of its values wide and its middle is within 0.4% of each of them. Below
 * 256 a bucket holds one value. Like Tene's HdrHistogram, without a range to
 * choose: 64 bits take 58 KiB.
 */
#ifndef STATS_HISTOGRAM_H
#define STATS_HISTOGRAM_H

#include <stdint.h>

#define HISTOGRAM_BITS    7
#define HISTOGRAM_BUCKETS ((64 - HISTOGRAM_BITS + 1) << HISTOGRAM_BITS)

/* Zeroed is empty. */
struct histogram {
	uint64_t buckets[HISTOGRAM_BUCKETS];
	uint64_t count;
	uint64_t max; /* exact */
};

static inline unsigned histogram_bucket(uint64_t value)
{
	unsigned shift = value < 2u << HISTOGRAM_BITS
	                     ? 0
	                     : 63 - HISTOGRAM_BITS - (unsigned)__builtin_clzll(value);

	return (shift << HISTOGRAM_BITS) + (unsigned)(value >> shift);
}

static inline void histogram_count(struct histogram *histogram, uint64_t value, uint64_t times)
{
	histogram->buckets[histogram_bucket(value)] += times;
	histogram->count += times;
	if (value > histogram->max)
		histogram->max = value;
}

/** The least value of the bucket that `value` falls into. */
uint64_t histogram_floor(uint64_t value);

void histogram_add(struct histogram *to, const struct histogram *from);

/** The value that a share of 0 < `q` <= 1 does not exceed, within 0.4%; 0 when empty. */
uint64_t histogram_quantile(const struct histogram *histogram, double q);

/** How many values lie in buckets above that of `value`. */
uint64_t histogram_above(const struct histogram *histogram, uint64_t value);

#endif
