/* limit_list.h: the page that lists the limits that are in force. */
#ifndef SERVER_LIMIT_LIST_H
#define SERVER_LIMIT_LIST_H

#include "server/requests/decider.h"

/* The list shows so many keys of a limit that are not closed, besides the forced ones. */
#define LIMIT_LIST_PHASES 100

/** Appends a JSON array, in the order of the file. 0 or ENOMEM. */
int limit_list_render(struct decider *decider, struct buffer *out);

#endif
