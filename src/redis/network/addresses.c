/*
 * addresses.c: remembers which addresses of the hosts of a store worked and which failed, so that
 * the next connection tries the best one first. All threads of the store share it.
 */
#include "redis/network/addresses.h"

#include <string.h>

void addresses_open(struct addresses *addresses)
{
	pthread_mutex_init(&addresses->lock, NULL);
	addresses->events = addresses->count = 0;
}

void addresses_close(struct addresses *addresses)
{
	pthread_mutex_destroy(&addresses->lock);
}

static bool is_same(const struct redis_address *a, const struct redis_address *b)
{
	return a->len == b->len && memcmp(&a->any, &b->any, a->len) == 0;
}

/* The index of an address, or `count` if it is not known. */
static size_t find_address(const struct addresses *addresses, const struct redis_address *address)
{
	size_t i = 0;

	while (i < addresses->count && !is_same(&addresses->items[i].address, address))
		i++;
	return i;
}

/* The index of the address whose newest event is the oldest. */
static size_t oldest_address(const struct addresses *addresses)
{
	size_t oldest = 0;

	for (size_t i = 1; i < addresses->count; i++)
		if (addresses->items[i].event < addresses->items[oldest].event)
			oldest = i;
	return oldest;
}

void addresses_record(struct addresses *addresses, const struct redis_address *address, bool works)
{
	size_t i;

	pthread_mutex_lock(&addresses->lock);
	i = find_address(addresses, address);
	if (i == ADDRESSES_MAX)
		i = oldest_address(addresses);
	else if (i == addresses->count)
		addresses->count++;
	addresses->items[i].address = *address;
	addresses->items[i].event = ++addresses->events;
	addresses->items[i].works = works;
	pthread_mutex_unlock(&addresses->lock);
}

#define RANK_UNKNOWN (UINT64_MAX / 2)

/*
 * The address of the lowest rank is tried first: those that worked, the last one first; then
 * unknown ones; then those that failed, the last one last.
 */
static uint64_t rank(const struct addresses *addresses, const struct redis_address *address)
{
	size_t i = find_address(addresses, address);

	if (i == addresses->count)
		return RANK_UNKNOWN;
	return addresses->items[i].works ? RANK_UNKNOWN - addresses->items[i].event
	                                 : RANK_UNKNOWN + addresses->items[i].event;
}

void addresses_sort(struct addresses *addresses, struct redis_address *list, size_t n)
{
	pthread_mutex_lock(&addresses->lock);
	for (size_t i = 1; i < n; i++) { /* insertion sort */
		struct redis_address moved = list[i];
		size_t at = i;

		for (; at > 0 && rank(addresses, &moved) < rank(addresses, &list[at - 1]); at--)
			list[at] = list[at - 1];
		list[at] = moved;
	}
	pthread_mutex_unlock(&addresses->lock);
}
