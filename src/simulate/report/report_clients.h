/* report_clients.h: writes what became of clients that retry while the backend was slow. */
#ifndef SIMULATE_REPORT_CLIENTS_H
#define SIMULATE_REPORT_CLIENTS_H

#include "base/buffer.h"
#include "simulate/closed_loop/experiment.h"

struct report_configuration {
	const char *name;
	const struct experiment_result *result;
};

struct report_clients {
	const struct experiment *experiment;
	const struct report_configuration *configurations; /* the first one has no limits */
	size_t count;
};

/** Appends a table with a chart and a verdict for each configuration. `plain`: only ASCII. */
void report_clients_text(const struct report_clients *clients, bool plain, struct buffer *out);

/** Appends a JSON object. */
void report_clients_json(const struct report_clients *clients, struct buffer *out);

#endif
