/*
 * addresses.h: remembers, for all threads of a store, which addresses of a host worked and which
 * failed.
 *
 * A host's name may have several addresses. The next connection first tries the address that worked
 * last, and last the address that failed last.
 */
#ifndef REDIS_ADDRESSES_H
#define REDIS_ADDRESSES_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "redis/network/redis_address.h"

#define ADDRESSES_MAX 64 /* of all hosts of a store; further ones replace the oldest */

struct addresses {
	pthread_mutex_t lock;
	uint64_t events; /* recorded so far */
	size_t count;
	struct {
		struct redis_address address;
		uint64_t event; /* the number of its newest event */
		bool works;
	} items[ADDRESSES_MAX];
};

void addresses_open(struct addresses *addresses);
void addresses_close(struct addresses *addresses);

void addresses_record(struct addresses *addresses, const struct redis_address *address, bool works);
/** Sorts a list, the best address first. Addresses without events keep their order. */
void addresses_sort(struct addresses *addresses, struct redis_address *list, size_t n);

#endif
