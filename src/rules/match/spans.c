/*
 * spans.c: looks addresses (IPv6, and IPv4 mapped to it) up in a set of ranges, like in a B-tree:
 * the ranges are sorted and merged, and above them are levels with every SPANS_FAN-th first
 * address.
 */
#include "rules/match/spans.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <weir/weir.h>

#include "base/os/os.h"

int spans_open(struct spans *spans, size_t most)
{
	*spans = (struct spans){0};
	if (most == 0)
		return WEIR_OK;
	spans->room = most;
	spans->size = most * sizeof *spans->items;
	spans->items = os_pages_map(spans->size);
	return spans->items ? WEIR_OK : WEIR_ENOMEM;
}

static spans_address address_of(const struct ip *ip)
{
	uint64_t high, low;

	memcpy(&high, ip->bytes, 8);
	memcpy(&low, ip->bytes + 8, 8);
#if __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
	high = __builtin_bswap64(high);
	low = __builtin_bswap64(low);
#endif
	return (spans_address)high << 64 | low;
}

void spans_add(struct spans *spans, const struct ip_range *range)
{
	spans->items[spans->count++] =
	    (struct span){address_of(&range->first), address_of(&range->last)};
}

static int compare_starts(const void *a, const void *b)
{
	const struct span *x = a, *y = b;

	return (x->first > y->first) - (x->first < y->first);
}

/* Files are often sorted, and sorting takes memory. */
static bool is_sorted(const struct spans *spans)
{
	for (size_t i = 1; i < spans->count; i++)
		if (spans->items[i].first < spans->items[i - 1].first)
			return false;
	return true;
}

/* Merges ranges that overlap or touch. */
static void merge_ranges(struct spans *spans)
{
	size_t merged = 0;

	for (size_t i = 0; i < spans->count; i++) {
		struct span *before = merged > 0 ? &spans->items[merged - 1] : NULL, item = spans->items[i];

		if (!before || (item.first > before->last && item.first - before->last > 1))
			spans->items[merged++] = item;
		else if (item.last > before->last)
			before->last = item.last;
	}
	spans->count = merged;
}

/* Builds the levels above the ranges, until one has at most SPANS_FAN addresses. */
static int add_levels(struct spans *spans)
{
	size_t total = 0;
	spans_address *next;

	for (size_t n = spans->count; n > SPANS_FAN;) {
		n = (n + SPANS_FAN - 1) / SPANS_FAN;
		spans->level_counts[spans->level_count++] = n;
		total += n;
	}
	if (total == 0)
		return WEIR_OK;
	spans->levels_size = total * sizeof *next;
	next = os_pages_map(spans->levels_size);
	if (!next)
		return WEIR_ENOMEM;
	for (size_t level = 0; level < spans->level_count; level++) {
		spans->levels[level] = next;
		for (size_t i = 0; i < spans->level_counts[level]; i++)
			*next++ = level == 0 ? spans->items[i * SPANS_FAN].first
			                     : spans->levels[level - 1][i * SPANS_FAN];
	}
	return WEIR_OK;
}

int spans_sort(struct spans *spans)
{
	if (!is_sorted(spans))
		qsort(spans->items, spans->count, sizeof *spans->items, compare_starts);
	merge_ranges(spans);
	return add_levels(spans);
}

void spans_close(struct spans *spans)
{
	os_pages_unmap(spans->items, spans->size);
	os_pages_unmap(spans->levels[0], spans->levels_size);
}

/* How many of `count` elements a search reads from `from` on. */
static inline size_t fan_count(size_t from, size_t count)
{
	return count - from < SPANS_FAN ? count - from : SPANS_FAN;
}

/*
 * At each level, from the top, finds the last first address that is at most the wanted one: the
 * search goes on below it. At last it compares the ranges there.
 */
bool spans_have(const struct spans *spans, const struct ip *ip)
{
	spans_address wanted = address_of(ip);
	const struct span *items = spans->items;
	size_t from = 0;

	for (size_t level = spans->level_count; level-- > 0;) {
		const spans_address *firsts = spans->levels[level] + from;
		size_t n = fan_count(from, spans->level_counts[level]), before = 0;

		for (size_t i = 0; i < n; i++)
			before += firsts[i] <= wanted;
		if (before == 0)
			return false;
		from = (from + before - 1) * SPANS_FAN;
	}
	for (size_t i = from, end = from + fan_count(from, spans->count); i < end; i++)
		if (items[i].first <= wanted && wanted <= items[i].last)
			return true;
	return false;
}
