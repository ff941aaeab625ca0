/* keys.h: draws the keys of requests, numbers below `count`, reproducibly from a seed. */
#ifndef LOAD_KEYS_H
#define LOAD_KEYS_H

#include <stddef.h>
#include <stdint.h>

#include <weir/weir.h>

#include "base/slice.h"

enum keys_kind { KEYS_UNIFORM, KEYS_ZIPF, KEYS_SEQUENTIAL, KEYS_SINGLE };

struct keys_options {
	uint64_t count; /* 1 to KEYS_MAX */
	enum keys_kind kind;
	double exponent; /* of zipf, > 0 */
};

#define KEYS_MAX UINT64_C(1000000000000000) /* zipf computes in doubles */

struct keys {
	struct keys_options options;
	uint64_t state;                       /* of the random numbers; sequential: the next key */
	double y_min, y_max, accept_distance; /* zipf: see keys.c */
};

/** "uniform", "zipf:1.1", "sequential" or "single". Errors: EINVAL with what was expected. */
int keys_parse_distribution(struct slice text, struct keys_options *out, struct weir_error *error);

/** Starts the `part`-th of `parts` independent streams of a seed; "sequential" starts at its share.
 */
void keys_start(struct keys *keys, const struct keys_options *options, uint64_t seed, size_t part,
                size_t parts);

uint64_t keys_next(struct keys *keys);

#endif
