/* reset_log.h: logs which keys were reset, and by whom. The log bounds the lines (event_log.h). */
#ifndef SERVER_RESET_LOG_H
#define SERVER_RESET_LOG_H

#include "server/requests/decider.h"

/**
 * Logs the reset of a key that is known by the text which lists show for it, and not by its name.
 * Called while the request is prepared: decider->user is its sender.
 */
void reset_log_shown_key(struct decider *decider, const struct work *work, const char *limit,
                         struct slice shown);
/** Logs the reset that the plan of a decided work has done: each key by its digest. */
void reset_log_keys(struct decider *decider, const struct work *work);

#endif
