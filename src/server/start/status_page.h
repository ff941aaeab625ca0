/*
 * status_page.h: renders /v1/status, what a server runs: since when, on which addresses, by which
 * configuration, with which stores, what is open or waits, and what operators have changed.
 */
#ifndef SERVER_STATUS_PAGE_H
#define SERVER_STATUS_PAGE_H

#include "server/requests/decider.h"

#define STATUS_PAGE_OPEN_BREAKERS 100 /* the most that are shown */
#define STATUS_PAGE_SWITCHED      100 /* changes by operators: the most that are shown */

/** Renders it for page.h. Returns 0 or ENOMEM. */
int status_page_render(struct decider *decider, struct buffer *out);

#endif
