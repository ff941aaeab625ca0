/*
 * host_lookup.h: looks up the addresses of a host in a thread of its own, so that a name service
 * that hangs blocks no other thread.
 */
#ifndef REDIS_HOST_LOOKUP_H
#define REDIS_HOST_LOOKUP_H

#include <stddef.h>

#include "redis/network/redis_address.h"
#include "redis/network/url.h"

struct lookup;

/** Begins a lookup. NULL if there is no memory or no descriptor. */
struct lookup *lookup_open(const struct redis_host *host);
/** A descriptor that becomes readable when the lookup has ended. */
int lookup_fd(const struct lookup *lookup);
/**
 * Call it once, after the end: writes at most `max` addresses. Returns NULL, or why there are none.
 */
const char *lookup_result(const struct lookup *lookup, struct redis_address *out, size_t max,
                          size_t *n);
/** May be called before the end. NULL does nothing. */
void lookup_close(struct lookup *lookup);

#endif
