/*
 * reload_wait.h: answers requests for a reload (reload_requests.h) when it is done. Meanwhile they
 * are suspended (suspend.h), so that no loop waits for files.
 */
#ifndef SERVER_RELOAD_WAIT_H
#define SERVER_RELOAD_WAIT_H

#include "server/waiting/suspend.h"

/** Asks for a reload and suspends the work. Returns false after setting an error: memory is short.
 */
bool reload_wait_begin(struct waiting *waiting, struct work *work);
/** Answers all works whose reload is done. */
void reload_wait_run(struct waiting *waiting);

#endif
