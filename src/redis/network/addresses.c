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

/* Its place; `count` if there is none. */
static size_t find_address(const struct addresses *addresses, const struct redis_address *address)
{
	size_t i = 0;

	while (i < addresses->count && !is_same(&addresses->items[i].address, address))
		i++;
	return i;
}

static size_t oldest(const struct addresses *addresses)
{
	size_t least = 0;

	for (size_t i = 1; i < addresses->count; i++)
		if (addresses->items[i].event < addresses->items[least].event)
			least = i;
	return least;
}

void addresses_record(struct addresses *addresses, const struct redis_address *address, bool works)
{
	size_t i;

	pthread_mutex_lock(&addresses->lock);
	i = find_address(addresses, address);
	if (i == ADDRESSES_MAX)
		i = oldest(addresses);
	else if (i == addresses->count)
		addresses->count++;
	addresses->items[i].address = *address;
	addresses->items[i].event = ++addresses->events;
	addresses->items[i].works = works;
	pthread_mutex_unlock(&addresses->lock);
}

#define UNKNOWN (UINT64_MAX / 2)

/* The lowest rank is tried first. */
static uint64_t rank(const struct addresses *addresses, const struct redis_address *address)
{
	size_t i = find_address(addresses, address);

	if (i == addresses->count)
		return UNKNOWN;
	return addresses->items[i].works ? UNKNOWN - addresses->items[i].event
	                                 : UNKNOWN + addresses->items[i].event;
}

void addresses_sort(struct addresses *addresses, struct redis_address *list, size_t n)
{
	pthread_mutex_lock(&addresses->lock);
	for (size_t i = 1; i < n; i++) {
		struct redis_address moved = list[i];
		size_t at = i;

		for (; at > 0 && rank(addresses, &moved) < rank(addresses, &list[at - 1]); at--)
			list[at] = list[at - 1];
		list[at] = moved;
	}
	pthread_mutex_unlock(&addresses->lock);
}
