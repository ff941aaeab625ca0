/*
 * limits.h: reads the limits that `weir simulate` tries: from files, from --try, or one of
 * each algorithm for the made-up requests of --pattern.
 */
#ifndef SIMULATE_LIMITS_H
#define SIMULATE_LIMITS_H

#include "rules/model.h"
#include "server/config/settings.h"

struct simulate_limits {
	struct settings settings;
	const char **names; /* of --limit, followed by those of added limits; empty without --limit */
	size_t name_count;
	const char **tried; /* texts of --try: "NAME: {…}" */
	size_t tried_count;
	bool may_be_none; /* limits may be added later */

	/* Set by simulate_limits_read. */
	weir_config *config;
	weir_config **added_configs; /* the configurations of added limits */
	size_t added_count;
	uint64_t capacity; /* keys to count at once */
};

/** Allocates enough for the flags of `argc` arguments. 0 or ENOMEM. */
int simulate_limits_open(struct simulate_limits *limits, int argc);
void simulate_limits_close(struct simulate_limits *limits);

/**
 * Reads the files and the texts of --try. Without any, and with a pattern, makes a limit of each
 * algorithm. Prints errors of files itself; then `error` has no message.
 */
int simulate_limits_read(struct simulate_limits *limits, bool has_pattern,
                         struct weir_error *error);

/** Adds the limit "NAME: {…}" to those that were read. `flag` is its flag, for errors. */
int simulate_limits_add(struct simulate_limits *limits, const char *flag, const char *text,
                        struct weir_error *error);

/** Reads the limit "NAME: {…}". `flag` is its flag, for errors. Free *out with weir_config_close.
 */
int simulate_limit_read(const char *flag, const char *text, weir_config **out,
                        struct weir_error *error);

#endif
