/* clients.h: reads the flags of `weir simulate --clients`, and plays its configurations. */
#ifndef SIMULATE_CLIENTS_H
#define SIMULATE_CLIENTS_H

#include "cli/simulate/progress.h"
#include "simulate/replay.h"
#include "simulate/report/report_clients.h"

#define CLIENTS_ATTEMPTS "3"
#define CLIENTS_TIMEOUT  "1s"
#define CLIENTS_THINK    "1s"
#define CLIENTS_BACKOFF  "100ms"
#define CLIENTS_BACKEND  "16,10ms"
#define CLIENTS_OVERLOAD "5"
#define CLIENTS_SEED     "1"

struct clients {
	/* The values of flags; NULL for the default. */
	const char *count, *attempts, *timeout, *think, *backoff, *backend, *overload, *seed;
	const char **attributes; /* of --attr: "NAME=VALUE" */
	size_t attribute_count;

	struct experiment experiment;
	struct experiment_result *results; /* one for each configuration; the first one has no limits */
	struct report_configuration *configurations;
	struct report_clients report;
};

/** Reads the flags. Errors: EINVAL. */
int clients_read(struct clients *clients, struct weir_error *error);

/** Plays all scenarios of the replay, and one without limits. `name`: of a scenario with rules. */
int clients_run(struct clients *clients, struct replay *replay, const char *name,
                struct progress *progress, struct weir_error *error);

void clients_close(struct clients *clients);

#endif
