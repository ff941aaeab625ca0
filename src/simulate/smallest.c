/*
 * smallest.c: searches for the smallest number that fits, of which the caller tries several at
 * once: larger and larger ones until one fits, then ones between it and the largest that does not.
 */
#include "simulate/smallest.h"

#include "base/number.h"

#define FACTOR 4 /* from one number to the next, until one fits */

static size_t next_larger(const struct smallest *search, uint64_t numbers[SMALLEST_AT_ONCE])
{
	uint64_t number = search->below;
	size_t n = 0;

	while (n < SMALLEST_AT_ONCE && number < search->max) {
		number = u64_min(number ? number * FACTOR : 1, search->max);
		numbers[n++] = number;
	}
	return n;
}

size_t smallest_next(const struct smallest *search, uint64_t numbers[SMALLEST_AT_ONCE])
{
	uint64_t between;
	size_t n;

	if (search->fits == 0)
		return next_larger(search, numbers);
	between = search->fits - search->below - 1;
	n = u64_min(between, SMALLEST_AT_ONCE);
	for (size_t i = 0; i < n; i++)
		numbers[i] = search->below + (i + 1) * (between + 1) / (n + 1);
	return n;
}

void smallest_report(struct smallest *search, uint64_t number, bool fits)
{
	if (search->fits != 0 && number >= search->fits)
		return;
	if (fits)
		search->fits = number;
	else
		search->below = number;
}
