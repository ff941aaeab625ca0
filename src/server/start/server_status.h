/*
 * server_status.h: has the facts that /v1/status shows: the start of the server, its listeners, files
 * and stores.
 */
#ifndef SERVER_SERVER_STATUS_H
#define SERVER_SERVER_STATUS_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "net/address.h"

#define SERVER_STATUS_LISTENERS 8
#define SERVER_STATUS_ERROR_MAX 1024

struct server_status {
	/* These are set before the workers start, and refer to parts of struct server: */
	uint64_t started_ns; /* Unix */
	uint64_t started_monotonic_ns;
	const char *const *files; /* those that flags or the environment name */
	size_t file_count;
	const char *table_path; /* of the table's file, empty for a table in memory */
	size_t listener_count;
	struct server_status_listener {
		const char *name;
		const struct net_address *address;
		bool uses_tls;
	} listeners[SERVER_STATUS_LISTENERS];

	pthread_mutex_t mutex;                      /* of the error */
	char reload_error[SERVER_STATUS_ERROR_MAX]; /* of the last reload, empty if that succeeded */
};

void server_status_open(struct server_status *status);
void server_status_close(struct server_status *status);

/** Records how a reload ended: with the error, or NULL. The text is cut to fit. */
void server_status_set_reload_error(struct server_status *status, const char *error);

#endif
