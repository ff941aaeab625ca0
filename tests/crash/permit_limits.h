/*
 * permit_limits.h: the limits whose requests are reported, one or more for each kind of record, and
 * the memory in which callers write down their permits.
 *
 * All callers of a run share that memory, and it outlives them. A place is a key of a limit: `limit
 * * KEYS + key`. Time is a number in it, which each call of any caller advances.
 */
#ifndef CRASH_PERMIT_LIMITS_H
#define CRASH_PERMIT_LIMITS_H

#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include <weir/weir.h>

#define MS UINT64_C(1000000)

/* tests/e2e/test_permit_kills.py has all of these, too. */
#define KEYS       8
#define PERMITS    12  /* that a caller has at most */
#define CALLERS    256 /* of a run, one after the other */
#define TIMEOUT_NS (20 * MS)
#define SLEEP_NS   MS
#define PROBES     2

enum { BREAKER, BULKHEAD, THROTTLE, MEASURED, NARROW, CONCURRENCY, LIMITS };
#define PLACES (LIMITS * KEYS)

enum step { FREE, ASKING, HELD, REPORTING };

struct caller {
	struct {
		_Atomic uint32_t step, place;
		struct weir_permit permit;
	} permits[PERMITS];
	struct {
		_Atomic uint32_t asked, answered;     /* of THROTTLE: all requests, */
		_Atomic uint32_t succeeds, succeeded; /* and reports of success */
	} counts[KEYS];
};

struct run {
	_Atomic uint64_t now_ns;
	struct caller callers[CALLERS];
};

static inline void fail(const char *what)
{
	fprintf(stderr, "%s\n", what);
	exit(1);
}

static inline struct run *run_map(const char *path)
{
	int fd = open(path, O_RDWR);
	void *memory = MAP_FAILED;

	if (fd >= 0)
		memory = mmap(NULL, sizeof(struct run), PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (memory == MAP_FAILED)
		fail("no memory of the run");
	close(fd);
	return memory;
}

/* The limits of MEASURED never deny: the callers bound the permits in flight. */
static inline struct weir_limit_options options_of_limit(int limit)
{
	static const struct weir_breaker_options breaker = {.window_ns = 20 * MS,
	                                                    .minimum = 10,
	                                                    .sleep_ns = SLEEP_NS,
	                                                    .probes = PROBES,
	                                                    .ramp_ns = WEIR_ZERO,
	                                                    .permit_timeout_ns = TIMEOUT_NS},
	                                         bulkhead = {.calls = 40,
	                                                     .minimum = 10,
	                                                     .sleep_ns = SLEEP_NS,
	                                                     .probes = PROBES,
	                                                     .ramp_ns = WEIR_ZERO,
	                                                     .max_concurrent = 4,
	                                                     .permit_timeout_ns = TIMEOUT_NS};
	static const struct weir_throttle_options throttle = {.window_ns = 3600 * 1000 * MS,
	                                                      .permit_timeout_ns = TIMEOUT_NS};
	static const struct weir_adaptive_options measured = {.initial = 200,
	                                                      .min = 100,
	                                                      .max = 400,
	                                                      .permit_timeout_ns = TIMEOUT_NS},
	                                          narrow = {.method = WEIR_METHOD_AIMD,
	                                                    .initial = 4,
	                                                    .min = 2,
	                                                    .max = 4,
	                                                    .permit_timeout_ns = TIMEOUT_NS};
	static const struct weir_limit_options options[LIMITS] = {
	    [BREAKER] = {.name = "breaker", .algorithm = WEIR_ALGORITHM_BREAKER, .breaker = &breaker},
	    [BULKHEAD] = {.name = "bulkhead",
	                  .algorithm = WEIR_ALGORITHM_BREAKER,
	                  .breaker = &bulkhead},
	    [THROTTLE] = {.name = "throttle",
	                  .algorithm = WEIR_ALGORITHM_THROTTLE,
	                  .throttle = &throttle},
	    [MEASURED] = {.name = "measured",
	                  .algorithm = WEIR_ALGORITHM_ADAPTIVE,
	                  .adaptive = &measured},
	    [NARROW] = {.name = "narrow", .algorithm = WEIR_ALGORITHM_ADAPTIVE, .adaptive = &narrow},
	    [CONCURRENCY] = {.name = "concurrency",
	                     .algorithm = WEIR_ALGORITHM_CONCURRENCY,
	                     .max = 4,
	                     .lease_ns = TIMEOUT_NS},
	};

	return options[limit];
}

#endif
