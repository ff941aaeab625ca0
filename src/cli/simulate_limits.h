/* simulate_limits.h: the limits that `weir simulate` tries: of files, of --try, or of a pattern. */
#ifndef CLI_SIMULATE_LIMITS_H
#define CLI_SIMULATE_LIMITS_H

#include "rules/model.h"
#include "server/config/settings.h"

struct simulate_limits {
	struct settings settings;
	const char **names; /* of --limit, then of those added where there are any of --limit */
	size_t name_count;
	const char **tried; /* texts of --try: "NAME: {…}" */
	size_t tried_count;
	bool may_be_none; /* limits are added later */

	/* From simulate_limits_read. */
	weir_config *config;
	weir_config **own; /* of each limit that was added */
	size_t own_count;
	uint64_t capacity;
};

/** Room for the flags of `argc` arguments. 0 or ENOMEM. */
int simulate_limits_open(struct simulate_limits *limits, int argc);
void simulate_limits_close(struct simulate_limits *limits);

/**
 * Reads the files and the texts of --try; without any, the limits to compare by a pattern where
 * there is one. Errors of files are told at once, and `error` has no message then.
 */
int simulate_limits_read(struct simulate_limits *limits, bool has_pattern,
                         struct weir_error *error);

/** Adds "NAME: {…}" to the limits that are read. `flag` is its flag, for errors. */
int simulate_limits_add(struct simulate_limits *limits, const char *flag, const char *text,
                        struct weir_error *error);

/** Reads "NAME: {…}". `flag` is its flag, for errors. Free with weir_config_close. */
int simulate_limit_read(const char *flag, const char *text, weir_config **out,
                        struct weir_error *error);

#endif
