/* listener.h: opens the addresses that a server listens on, each for one protocol. */
#ifndef SERVER_LISTENER_H
#define SERVER_LISTENER_H

#include "server/loop/worker.h"
#include "server/config/settings.h"

struct listener {
	const char *name;
	struct net_address address; /* port 0 is replaced by the port that the system gives */
	unsigned line, column;      /* of the address in the file, or 0 */
	const struct worker_protocol *protocol;
	bool uses_tls;
};

enum { LISTENER_HTTP, LISTENER_RESP, LISTENER_ADMIN, LISTENERS };

/**
 * Fills in the listeners and returns their number. LISTENER_ADMIN exists only if the file has it.
 */
size_t listeners_init(struct listener listeners[LISTENERS], const struct settings *settings,
                      const struct settings_plan *plan, const struct weir_config *config);

/**
 * Listens with a socket for each worker. Errors: EIO, ENOMEM; `error` names the listener and its
 * place in the file.
 */
int listener_open(struct listener *listener, struct worker *workers, size_t worker_count,
                  struct weir_error *error);

/** Warns if other machines can reach the listener and there are no users. */
void listener_warn_if_exposed(const struct listener *listener, const struct weir_config *config,
                              struct log *log);

/** Writes the line "listening: …" with the address. */
void listener_log_address(const struct listener *listener, struct log *log);

/** Removes the file of a Unix socket, if there is one. */
void listener_remove(const struct listener *listener);

#endif
