/*
 * reload.h: reads and compiles the configuration, at the start and while the server runs. A new
 * configuration replaces the running one only if nothing fails.
 *
 * All functions run on the thread that starts the server and waits for signals.
 */
#ifndef SERVER_RELOAD_H
#define SERVER_RELOAD_H

#include "server/start/server_state.h"

/**
 * Reads the files and watches them. Logs warnings, and errors as `event`; if errors were logged,
 * `error` has an empty message. Errors: as server_config_open.
 */
int reload_read(struct server *server, const char *event, struct server_config **out,
                struct weir_error *error);

/** Compiles `config`, which is to replace `before`, or NULL at the start. */
int reload_compile(struct server *server, struct server_config *config,
                   const struct server_config *before, struct weir_error *error);

/** Sets the limits on connections and their idle time from the configuration. */
void reload_apply_connections(struct server *server);

/** Logs the capacity of limits, and likely mistakes in the configuration. */
void reload_log_warnings(struct server *server);

/** Warns of listeners that other machines can reach without access control. */
void reload_warn_of_exposure(const struct server *server);

/** Wakes the loops of a struct server, whose clients may have to get events or may continue. */
void reload_wake(void *server);

/** Reads the files again; logs what changed, or why nothing did. */
void reload(struct server *server);

#endif
