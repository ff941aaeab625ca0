/* remove_latency_limits.h: what a log says nothing about. */
#ifndef SIMULATE_LEAVE_OUT_H
#define SIMULATE_LEAVE_OUT_H

#include <stdio.h>

#include "rules/model.h"

/**
 * For a log that does not tell how long requests took: takes limits that need to know it out of a
 * configuration and its rules, and says so on `said`. Errors: EINVAL (one of them is among the `n`
 * names that were asked for, or there is no other limit), ENOMEM.
 */
int remove_latency_limits(struct weir_config *config, const char *const *names, size_t n,
                          FILE *said, struct weir_error *error);

#endif
