#include "redis/network/addresses.h"

#include <string.h>

void addresses_open(struct addresses *known)
{
	pthread_mutex_init(&known->lock, NULL);
	known->events = known->count = 0;
}

void addresses_close(struct addresses *known)
{
	pthread_mutex_destroy(&known->lock);
}

static bool is_same(const struct redis_address *a, const struct redis_address *b)
{
	return a->len == b->len && memcmp(&a->any, &b->any, a->len) == 0;
}

/* Its place; `count` if there is none. */
static size_t find(const struct addresses *known, const struct redis_address *address)
{
	size_t i = 0;

	while (i < known->count && !is_same(&known->items[i].address, address))
		i++;
	return i;
}

static size_t oldest(const struct addresses *known)
{
	size_t least = 0;

	for (size_t i = 1; i < known->count; i++)
		if (known->items[i].event < known->items[least].event)
			least = i;
	return least;
}

void addresses_record(struct addresses *known, const struct redis_address *address, bool works)
{
	size_t i;

	pthread_mutex_lock(&known->lock);
	i = find(known, address);
	if (i == ADDRESSES_MAX)
		i = oldest(known);
	else if (i == known->count)
		known->count++;
	known->items[i].address = *address;
	known->items[i].event = ++known->events;
	known->items[i].works = works;
	pthread_mutex_unlock(&known->lock);
}

#define UNKNOWN (UINT64_MAX / 2)

/* The lowest rank is tried first. */
static uint64_t rank(const struct addresses *known, const struct redis_address *address)
{
	size_t i = find(known, address);

	if (i == known->count)
		return UNKNOWN;
	return known->items[i].works ? UNKNOWN - known->items[i].event
	                             : UNKNOWN + known->items[i].event;
}

void addresses_sort(struct addresses *known, struct redis_address *list, size_t n)
{
	pthread_mutex_lock(&known->lock);
	for (size_t i = 1; i < n; i++) {
		struct redis_address moved = list[i];
		size_t at = i;

		for (; at > 0 && rank(known, &moved) < rank(known, &list[at - 1]); at--)
			list[at] = list[at - 1];
		list[at] = moved;
	}
	pthread_mutex_unlock(&known->lock);
}
