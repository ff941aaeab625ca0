/*
 * server_state.h: defines the state of a running server: its settings, what its threads share, and
 * these threads.
 */
#ifndef SERVER_SERVER_STATE_H
#define SERVER_SERVER_STATE_H

#include "server/config/config.h"
#include "server/config/file_watch.h"
#include "server/config/settings.h"
#include "server/loop/listener.h"
#include "server/loop/worker.h"

struct server {
	struct settings settings;
	char files[SETTINGS_FILES_TEXT_MAX];
	struct settings_plan plan;
	struct worker_shared shared;
	struct server_config *config; /* the newest */
	struct worker *workers;
	size_t worker_count;     /* those that were opened */
	struct file_watch watch; /* of all files that it reads */
	struct listener listeners[LISTENERS];
	size_t listener_count;
};

#endif
