/* limit_list.h: renders the page that lists the limits in force. */
#ifndef SERVER_LIMIT_LIST_H
#define SERVER_LIMIT_LIST_H

#include "server/requests/decider.h"

/* The number of keys of a limit that are shown although nobody has forced them. */
#define LIMIT_LIST_PHASES 100

/** Appends a JSON array, in the order of the file. Returns 0 or ENOMEM. */
int limit_list_render(struct decider *decider, struct buffer *out);

#endif
