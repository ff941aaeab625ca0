/*
 * reload.h: reads and compiles the server's configuration, at the start and again beside the
 * running one, which the new one replaces only if nothing failed.
 *
 * All of this is for the thread that starts the server and waits for signals.
 */
#ifndef SERVER_RELOAD_H
#define SERVER_RELOAD_H

#include "server/start/server_state.h"

/**
 * Reads the files and watches them. Errors and warnings are logged, errors as `event`; `error` has
 * no message if they are. Errors as server_config_open.
 */
int reload_read(struct server *server, const char *event, struct server_config **out,
                struct weir_error *error);

/** Compiles it. `before`: the configuration that it is to succeed, or NULL. */
int reload_compile(struct server *server, struct server_config *config,
                   const struct server_config *before, struct weir_error *error);

/** Lets as many connections open, and be idle as long, as the configuration says. */
void reload_apply_connections(struct server *server);

/** Logs how many keys limits have room for, and likely mistakes in the configuration. */
void reload_log_warnings(struct server *server);

/** Warns of listeners that other machines reach without access control. */
void reload_warn_of_exposure(const struct server *server);

/** Wakes the loops of a struct server: their clients have events to be told, or may go on. */
void reload_wake(void *server);

/** Reads the files again; logs what changed, or why nothing did. */
void reload(struct server *server);

#endif
