/* listener.h: the addresses that a server listens on, each with its protocol. */
#ifndef SERVER_LISTENER_H
#define SERVER_LISTENER_H

#include "server/loop/worker.h"
#include "server/config/settings.h"

struct listener {
	const char *name;
	struct net_address address; /* port 0 becomes the port that it got */
	unsigned line, column;      /* of the file; 0: from elsewhere */
	const struct worker_protocol *protocol;
	bool uses_tls; /* by TLS */
};

enum { LISTENER_HTTP, LISTENER_RESP, LISTENER_ADMIN, LISTENERS };

/** Returns how many there are: the last one, for admin calls, only if the file has it. */
size_t listeners_init(struct listener listeners[LISTENERS], const struct settings *settings,
                      const struct settings_plan *plan, const struct weir_config *config);

/** Listens with a socket for each worker. Errors: EIO, ENOMEM, with the listener and its place. */
int listener_open(struct listener *listener, struct worker *workers, size_t worker_count,
                  struct weir_error *error);

/** Warns if other machines can reach it, which has no access control. */
void listener_warn(const struct listener *listener, const struct weir_config *config,
                   struct log *log);

/** Writes the line that tells its address. */
void listener_log_address(const struct listener *listener, struct log *log);

/** Removes the file of a Unix socket. Also of a listener that is not open. */
void listener_remove(const struct listener *listener);

#endif
