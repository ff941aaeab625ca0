/* simulate_suggest.h: `weir simulate --suggest`: the smallest limit that denies few enough. */
#ifndef CLI_SIMULATE_SUGGEST_H
#define CLI_SIMULATE_SUGGEST_H

#include "base/arena.h"
#include "simulate/input/reusable_log.h"
#include "simulate/replay.h"
#include "simulate/report/report.h"

#define SUGGEST_DENY "0.1%" /* the default share */

struct suggest {
	/* As given; NULL if not given, and the default holds. */
	const char *what, *deny, *by, *key;
	const char *path;            /* of the log */
	const struct format *format; /* NULL if it is to be guessed */
	uint64_t capacity;
	void (*progress)(void *context, uint64_t requests);
	void *progress_context;

	/* The result. Its strings and points are in the arena. */
	struct report_suggestion found;
	struct reusable_log log; /* for the reader of the report's own replay */
	bool is_kept;            /* the log is open */
	struct arena arena;
};

/** Checks the flags. Errors: EINVAL. */
int suggest_check(const struct suggest *suggest, struct weir_error *error);

/** Searches, over several replays. Errors: those of limits and logs, or ENOTFOUND. */
int suggest_run(struct suggest *suggest, struct weir_error *error);

void suggest_close(struct suggest *suggest);

#endif
