/*
 * lookup.h: the addresses of a host. A thread of its own looks up each name and then ends, so a
 * name service that hangs blocks no other thread.
 */
#ifndef REDIS_HOST_LOOKUP_H
#define REDIS_HOST_LOOKUP_H

#include <stddef.h>

#include "redis/network/redis_address.h"
#include "redis/network/url.h"

struct lookup;

/** Begins it. NULL if there is no memory or no descriptor. */
struct lookup *lookup_open(const struct redis_host *host);
/** Readable when it has ended. */
int lookup_fd(const struct lookup *lookup);
/** Once, when it has ended: writes at most `max` addresses; NULL, or why there are none. */
const char *lookup_result(const struct lookup *lookup, struct redis_address *out, size_t max,
                          size_t *n);
/** At any time. NULL does nothing. */
void lookup_close(struct lookup *lookup);

#endif
