/* until.h: waits for a condition, until a time of the monotonic clock. */
#ifndef BASE_UNTIL_H
#define BASE_UNTIL_H

#include <pthread.h>
#include <stdint.h>
#include <time.h>

#include "base/number.h"

static inline void until_init(pthread_cond_t *cond)
{
	pthread_condattr_t attributes;

	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(cond, &attributes);
	pthread_condattr_destroy(&attributes);
}

/** As pthread_cond_timedwait. */
static inline int until_wait(pthread_cond_t *cond, pthread_mutex_t *lock, uint64_t until_ns)
{
	struct timespec until = {(time_t)(until_ns / NS_PER_S), (long)(until_ns % NS_PER_S)};

	return pthread_cond_timedwait(cond, lock, &until);
}

#endif
