/* dashboard.h: answers a browser with the page on which an operator sees what the server does. */
#ifndef SERVER_DASHBOARD_H
#define SERVER_DASHBOARD_H

#include "server/requests/decider.h"

/** Handles REQUEST_DASHBOARD. */
void dashboard_finish(struct decider *decider, struct work *work, struct reply *reply);

#endif
