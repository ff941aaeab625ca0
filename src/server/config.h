/* config.h: all that a reload replaces, as one immutable thing behind one pointer. */
#ifndef SERVER_CONFIG_H
#define SERVER_CONFIG_H

#include <stddef.h>

#include <weir/rules.h>

#include "server/metrics.h"

struct server_config {
	struct weir_config *rules;
	weir_engine *engine;
	struct metrics_limit **metrics; /* by weir_limit.metric */
	size_t metric_adhoc;            /* indexes of those that no limit of the file has */
	size_t metric_none;
};

/** Reads a file in the language that its name tells. Errors as weir_config_read_file. */
int server_config_read(const char *path, struct weir_config **out, struct weir_error *error);

/**
 * Reads the file at `path` (NULL: no rules). Errors (`error` is not NULL) as
 * weir_config_read_file; *out is NULL then. A message without a line names the file.
 */
int server_config_open(const char *path, struct server_config **out, struct weir_error *error);

/** Compiles what server_config_open has read, for one table. Errors as weir_engine_open. */
int server_config_compile(struct server_config *config, weir_table *table, struct metrics *metrics,
                          struct weir_error *error);

void server_config_close(struct server_config *config);

#endif
