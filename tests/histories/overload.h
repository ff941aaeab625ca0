/*
 * overload.h: many clients at one key of an adaptive limit, and the server behind it that they can
 * overload (src/simulate/closed_loop/backend.h).
 */
#ifndef HISTORIES_OVERLOAD_H
#define HISTORIES_OVERLOAD_H

#include <stdint.h>

#include "simulate/closed_loop/backend.h"

struct overload_key {
	weir_table *table;
	const weir_limit *limit;
	const char *key;
};

/* In a span of time: the most that the limit was, and work in mean service times. */
struct overload_result {
	uint64_t most;
	struct backend_work work;
};

/** Begins another backend, or none if `options` is NULL. */
void overload_begin(const struct backend_options *options, uint64_t now_ns);
/** Plays a demand for so long. */
struct overload_result overload_play(const struct overload_key *key, struct backend_demand demand,
                                     uint64_t now_ns, uint64_t ns);

#endif
