/* no_denial.h: says what it means that `weir why` finds no denial. */
#ifndef CLI_REMOTE_NO_DENIAL_H
#define CLI_REMOTE_NO_DENIAL_H

#include "cli/remote/server_flags.h"

/* Which denials were asked for. NULL for all. */
struct denial_filters {
	const char *key, *id, *limit, *rule, *since;
};

/**
 * Reports that no denial passes the filters: names a limit or rule that the server does not have,
 * or says how far back the server's list goes. `is_quiet` reports only the former. Returns the exit
 * status.
 */
int no_denial_report(const struct denial_filters *filters, const struct server_flags *server,
                     bool is_quiet);

#endif
