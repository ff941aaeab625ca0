/*
 * config.h: all that a reload replaces, in one immutable object with a counted reference.
 *
 * The server's thread owns a reference to the newest configuration, each worker one to the
 * newest that it has seen. A configuration also owns a reference to its successor. So a
 * thread that holds one finds the newest without a lock, and no reload waits for a worker.
 * The thread that drops the last reference frees it.
 */
#ifndef SERVER_CONFIG_H
#define SERVER_CONFIG_H

#include <stdatomic.h>
#include <stddef.h>

#include <weir/rules.h>

#include "server/access/users.h"
#include "server/admin/metrics.h"
#include "server/stores/stores.h"
#include "tls/context.h"

struct server_config {
	_Atomic size_t references;
	struct server_config *_Atomic successor; /* once another has taken over */
	struct weir_config *rules;
	weir_engine *engine;
	struct users *users;     /* NULL: there are none */
	struct tls_context *tls; /* of its listeners; NULL: they have none */
	struct named_counters **metrics; /* as the limits of `engine` */
	struct named_counters **answers; /* as the rules of `rules` */
	size_t metric_adhoc;     /* the index of those that requests bring along */
	size_t metric_none;      /* and of requests to which no limit applied */
	uint64_t stores; /* that complete steps later and that limits are at: a bit for each index */
};

/**
 * Reads files; without any there are no rules. Errors as weir_config_read_files; *out is NULL
 * then. The caller owns a reference.
 */
int server_config_open(const struct weir_config_files *files, struct server_config **out,
                       struct weir_error *error);

/**
 * The engine of `rules`, whose limits are at the stores that they name: opens these, and connects
 * to nothing. Errors as engine_open and stores_open.
 */
int server_config_engine(const struct weir_config *rules, weir_table *table, struct stores *stores,
                         weir_engine **out, struct weir_error *error);

/**
 * The certificates of the listeners, or NULL where `rules` has none. Errors as
 * tls_context_open_server, with their place.
 */
int server_config_tls(const struct weir_config *rules, struct tls_context **out,
                      struct weir_error *error);

/**
 * Compiles what server_config_open has read, for one table, and opens the stores that its limits
 * name. `before` is the configuration whose users may stay known, or NULL. Errors as engine_open
 * and stores_open.
 */
int server_config_compile(struct server_config *config, const struct server_config *before,
                          weir_table *table, struct stores *stores, struct metrics *metrics,
                          struct weir_error *error);

/** Another reference to a configuration that the caller has one of. */
struct server_config *server_config_retain(struct server_config *config);
/** Gives up a reference; the last one frees. NULL does nothing. */
void server_config_release(struct server_config *config);

/**
 * Lets `next` take over from `*config`, whose reference the caller gives up for the one to
 * `next`. Counts go on where engine_succeed says. One thread at a time; others may decide by
 * the old one meanwhile.
 */
void server_config_replace(struct server_config **config, struct server_config *next);
/** The newest that took over from it, or itself. Lasts for as long as the caller's reference to
 * this one. */
struct server_config *server_config_newest(struct server_config *config);
/** Moves the caller's reference to the newest that took over. True: there was one. */
bool server_config_advance(struct server_config **config);

#endif
