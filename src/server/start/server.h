/* server.h: runs `weir serve`. */
#ifndef SERVER_SERVER_H
#define SERVER_SERVER_H

#include "server/config/settings.h"

/**
 * Serves until SIGTERM or SIGINT, and reloads on SIGHUP. Settings that `flags` lack come from the
 * environment and the file. Returns the exit status: 0, or 1 after an error on stderr.
 */
int server_run(const struct settings *flags);

#endif
