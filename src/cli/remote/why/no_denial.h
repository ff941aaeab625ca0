/* no_denial.h: says what it means that `weir why` finds no denial, or not all. */
#ifndef CLI_REMOTE_WHY_NO_DENIAL_H
#define CLI_REMOTE_WHY_NO_DENIAL_H

#include "base/buffer.h"
#include "cli/remote/server_flags.h"

#define DENIALS_MAX 1000 /* the most that are listed at once */

/* Which denials were asked for. NULL for all. */
struct denial_filters {
	const char *key, *id, *limit, *rule, *since, *until;
};

/** Appends which denials there are none of: "no denial of 'KEY' is kept since TIME". */
void no_denial_add_filters(struct buffer *text, const struct denial_filters *filters);

/**
 * Reports that no denial passes the filters: names a limit or rule that the server does not have,
 * or says how far back the server's list goes. `is_quiet` reports only the former. Returns the exit
 * status.
 */
int no_denial_report(const struct denial_filters *filters, const struct server_flags *server,
                     bool is_quiet);

/**
 * Reports that a list of denials is not complete: it was cut at its number (`is_cut`), or the
 * server keeps none from the beginning of --since.
 */
void no_denial_report_missing(const struct denial_filters *filters,
                              const struct server_flags *server, bool is_cut);

#endif
