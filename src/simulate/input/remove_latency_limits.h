/* remove_latency_limits.h: removes limits that can not be simulated with a log without latencies.
 */
#ifndef SIMULATE_REMOVE_LATENCY_LIMITS_H
#define SIMULATE_REMOVE_LATENCY_LIMITS_H

#include <stdio.h>

#include "rules/model.h"

/**
 * Removes limits that need reports from a configuration and its rules, and reports each on
 * `warnings`. Errors: EINVAL (one of them is among the `n` requested names, or no other limit is
 * left), ENOMEM.
 */
int remove_latency_limits(struct weir_config *config, const char *const *names, size_t n,
                          FILE *warnings, struct weir_error *error);

#endif
