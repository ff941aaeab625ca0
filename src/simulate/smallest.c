/*
 * smallest.c: searches for the smallest number that fits, of which the caller tries several at
 * once: larger and larger ones until one fits, then ones between it and the largest that does not.
 */
#include "simulate/smallest.h"

#include "base/number.h"

#define FACTOR 4 /* from one number to the next, until one fits */

/* Sets ever larger numbers to try while none is known to fit. */
static size_t next_larger(const struct smallest *search, uint64_t numbers[SMALLEST_AT_ONCE])
{
	uint64_t number = search->largest_unfit;
	size_t n = 0;

	while (n < SMALLEST_AT_ONCE && number < search->max) {
		number = u64_min(number ? number * FACTOR : 1, search->max);
		numbers[n++] = number;
	}
	return n;
}

/*
 * Sets the numbers to try next and returns how many, 0 at the end: either the smallest that fits is
 * known, or not even `max` fits. They cut the numbers that may be the smallest into equal parts.
 */
size_t smallest_next(const struct smallest *search, uint64_t numbers[SMALLEST_AT_ONCE])
{
	uint64_t untried;
	size_t n;

	if (search->smallest_fit == 0)
		return next_larger(search, numbers);
	untried = search->smallest_fit - search->largest_unfit - 1;
	n = u64_min(untried, SMALLEST_AT_ONCE);
	for (size_t i = 0; i < n; i++)
		numbers[i] = search->largest_unfit + (i + 1) * (untried + 1) / (n + 1);
	return n;
}

void smallest_report(struct smallest *search, uint64_t number, bool fits)
{
	if (search->smallest_fit != 0 && number >= search->smallest_fit)
		return;
	if (fits)
		search->smallest_fit = number;
	else
		search->largest_unfit = number;
}
