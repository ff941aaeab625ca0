/* suggest.h: finds the smallest limit that denies few enough, for `weir simulate
 * --suggest`. */
#ifndef SIMULATE_SUGGEST_H
#define SIMULATE_SUGGEST_H

#include "base/arena.h"
#include "cli/simulate/progress.h"
#include "simulate/input/reusable_log.h"
#include "simulate/replay.h"
#include "simulate/report/report.h"

#define SUGGEST_DENY "0.1%" /* the default share */

/* Which requests count: those whose field has one of the values, or one of all others. */
struct suggest_filter {
	const char *field;
	const char *const *values;
	size_t count;
	bool others;
};

struct suggest {
	/* The values of flags; NULL for the default. */
	const char *algorithm_and_period, *deny, *by, *key;
	const char *path;            /* of the log */
	const struct format *format; /* NULL if it is to be guessed */
	uint64_t capacity;
	struct progress *progress;
	const struct suggest_filter *filter; /* NULL: all requests count */

	/* The result, whose strings and points are in the arena. */
	struct report_suggestion found;
	struct reusable_log log; /* for the replay of the report */
	bool log_is_open;
	struct arena arena;
};

/** Checks the flags. Errors: EINVAL. */
int suggest_check(const struct suggest *suggest, struct weir_error *error);

/** Opens the log, unless it is open. suggest_run does so, too. */
int suggest_open_log(struct suggest *suggest, struct weir_error *error);

/** Searches by several replays. Errors: those of limits and logs, or ENOTFOUND. */
int suggest_run(struct suggest *suggest, struct weir_error *error);

void suggest_close(struct suggest *suggest);

#endif
