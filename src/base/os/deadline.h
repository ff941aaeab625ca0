/* deadline.h: waits for a condition variable until a deadline by the monotonic clock. */
#ifndef BASE_OS_DEADLINE_H
#define BASE_OS_DEADLINE_H

#include <pthread.h>
#include <stdint.h>
#include <time.h>

#include <weir/weir.h>

#include "base/number.h"
#include "base/os/os.h"

/** Initializes a condition variable for condition_wait_until. */
static inline void condition_init(pthread_cond_t *cond)
{
	pthread_condattr_t attributes;

	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(cond, &attributes);
	pthread_condattr_destroy(&attributes);
}

/** As pthread_cond_timedwait, with a time of the monotonic clock. */
static inline int condition_wait_until(pthread_cond_t *cond, pthread_mutex_t *lock,
                                       uint64_t until_ns)
{
	struct timespec until = {(time_t)(until_ns / NS_PER_S), (long)(until_ns % NS_PER_S)};

	return pthread_cond_timedwait(cond, lock, &until);
}

/** How long it is until a caller's deadline: WEIR_NOW, WEIR_FOREVER, or a time of the system's
 * clock. */
static inline uint64_t deadline_remaining_ns(uint64_t deadline_ns)
{
	return deadline_ns != WEIR_NOW ? sat_sub(deadline_ns, os_wall_ns()) : 0;
}

#endif
