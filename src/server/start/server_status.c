/* server_status.c: records what /v1/status shows of the server, and how its last reload ended. */
#include "server/start/server_status.h"

#include <stdio.h>

#include "base/os/os.h"

void server_status_open(struct server_status *status)
{
	pthread_mutex_init(&status->mutex, NULL);
	status->started_ns = os_wall_ns();
	status->started_monotonic_ns = os_monotonic_ns();
}

void server_status_close(struct server_status *status)
{
	pthread_mutex_destroy(&status->mutex);
}

void server_status_set_reload_error(struct server_status *status, const char *error)
{
	pthread_mutex_lock(&status->mutex);
	snprintf(status->reload_error, sizeof status->reload_error, "%s", error ? error : "");
	pthread_mutex_unlock(&status->mutex);
}
