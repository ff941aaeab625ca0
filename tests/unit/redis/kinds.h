/* kinds.h: a limit of each kind that scripts decide, for tests that try all. */
#ifndef TEST_REDIS_KINDS_H
#define TEST_REDIS_KINDS_H

#include "algo/algo.h"

#define KINDS 12

/* So slow that nothing leaks, and no key ends, while the machine stands still for seconds. */
extern struct algo_limit limits[KINDS];

/* A failure of these fails the test that calls them. */
void kinds_open(void);
void kinds_close(void);
struct algo_limit limit_of(struct weir_limit_options options);

#endif
