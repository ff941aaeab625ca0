/*
 * config.h: compiles everything that a reload replaces (rules, limits, users, certificates) into
 * one immutable object with a reference count.
 *
 * The server's thread owns a reference to the newest configuration, and each worker one to the
 * newest that it has seen. A configuration also owns a reference to its successor. So a thread with
 * a reference finds the newest configuration without a lock, and no reload waits for a worker. The
 * thread that releases the last reference frees it.
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
	struct server_config *_Atomic successor; /* set once another has replaced it */
	uint64_t read_ns;                        /* when its files were read, Unix */
	struct weir_config *rules;
	weir_engine *engine;
	struct users *users;                    /* NULL if there are none */
	struct tls_context *tls;                /* of its listeners, or NULL */
	struct named_counters **limit_counters; /* in the order of the engine's limits, and two more */
	struct named_counters **rule_counters;  /* in the order of the rules */
	size_t adhoc_counters_index; /* index in `limit_counters` of limits that come with requests */
	size_t no_limit_counters_index; /* and of requests to which no limit applies */
	/* bit `index` of each store at Redis with limits; its answers come later than the call */
	uint64_t remote_stores;
};

/**
 * Reads files; without files there are no rules. The caller owns a reference. Errors: as
 * weir_config_read_files; *out is NULL then.
 */
int server_config_open(const struct weir_config_files *files, struct server_config **out,
                       struct weir_error *error);

/**
 * Compiles the engine of `rules`, and opens the stores that its limits name, without connecting.
 * Errors: as engine_open and stores_open.
 */
int server_config_engine(const struct weir_config *rules, weir_table *table, struct stores *stores,
                         weir_engine **out, struct weir_error *error);

/**
 * Loads the certificates of the listeners; *out is NULL if `rules` has none. Errors: as
 * tls_context_open_server, with the place in the file.
 */
int server_config_tls(const struct weir_config *rules, struct tls_context **out,
                      struct weir_error *error);

/**
 * Compiles a configuration that server_config_open has read, for one table, and opens its stores.
 * `before` is the configuration whose known logins are copied, or NULL. Errors: as engine_open and
 * stores_open.
 */
int server_config_compile(struct server_config *config, const struct server_config *before,
                          weir_table *table, struct stores *stores, struct metrics *metrics,
                          struct weir_error *error);

/** Adds a reference. */
struct server_config *server_config_retain(struct server_config *config);
/** Releases a reference; the last one frees. Accepts NULL. */
void server_config_release(struct server_config *config);

/**
 * Replaces `*config` by `next`, and the caller's reference to the old one by that to `next`. Counts
 * continue as engine_succeed says. One thread at a time; other threads may use the old one
 * meanwhile.
 */
void server_config_replace(struct server_config **config, struct server_config *next);
/** The newest configuration. It lasts as long as the caller's reference to `config`. */
struct server_config *server_config_newest(struct server_config *config);
/**
 * Moves the caller's reference to the newest configuration. Returns whether that is another one.
 */
bool server_config_advance(struct server_config **config);

#endif
