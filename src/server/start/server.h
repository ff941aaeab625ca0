/* server.h: `weir serve`. */
#ifndef SERVER_SERVER_H
#define SERVER_SERVER_H

#include "server/config/settings.h"

/**
 * Serves until SIGTERM or SIGINT, reloads on SIGHUP. Returns the exit status: 0,
 * or 1 after saying on stderr what is wrong. `flags` are completed by the
 * environment and the file.
 */
int server_run(const struct settings *flags);

#endif
