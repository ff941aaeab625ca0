/*
 * settings.h: reads how the server is to run, from flags, the environment and the file, in this
 * order of precedence.
 */
#ifndef SERVER_SETTINGS_H
#define SERVER_SETTINGS_H

#include <weir/rules.h>

#include "net/address.h"
#include "server/admin/event_log.h"

/* Each setting is a flag --NAME and an environment variable. */
#define SETTING_LIST(X)                                                                            \
	X(CONFIG, "config", "WEIR_CONFIG")                                                             \
	X(HTTP, "http", "WEIR_HTTP")                                                                   \
	X(RESP, "resp", "WEIR_RESP")                                                                   \
	X(GRPC, "grpc", "WEIR_GRPC")                                                                   \
	X(STORE, "store", "WEIR_STORE")                                                                \
	X(CAPACITY, "capacity", "WEIR_CAPACITY")                                                       \
	X(SYNC, "sync", "WEIR_SYNC")                                                                   \
	X(THREADS, "threads", "WEIR_THREADS")                                                          \
	X(LOG_FORMAT, "log-format", "WEIR_LOG_FORMAT")

enum setting {
#define SETTING_ENUM(name, flag, variable) SETTING_##name,
	SETTING_LIST(SETTING_ENUM)
#undef SETTING_ENUM
	    SETTING_COUNT
};

#define SETTINGS_FILES_MAX 64

struct settings {
	const char *text[SETTING_COUNT];           /* the text, or NULL if it is not set */
	const char *files[SETTINGS_FILES_MAX + 1]; /* each CONFIG, and one more than is permitted */
	size_t file_count;
};

#define SETTINGS_CAPACITY_DEFAULT 1000000 /* the same as the library's */
#define SETTINGS_PATH_MAX         4096    /* with a NUL, as in Linux */

/* The settings after parsing. */
struct settings_plan {
	struct net_address http, resp;
	struct net_address admin;     /* without an address family if there is none */
	bool tls;                     /* for listeners without `plain` */
	char path[SETTINGS_PATH_MAX]; /* of the table's file; empty for a table in memory */
	/* the URL of the store of limits that name none, or NULL for the table */
	const char *redis;
	uint64_t owner, group; /* of the table's file, as in struct weir_table_options */
	uint64_t capacity;     /* 0 for an existing file's, or the default */
	uint64_t sync_ns;      /* between two syncs of the file to disk, or 0 for none */
	uint64_t threads;
};

#define SETTINGS_THREADS_MAX 256

/** Adds a flag: a setting, of which the last counts, or another file. */
void settings_add(struct settings *settings, enum setting setting, const char *text);

/** Sets what no flag has set; `get` is getenv. Empty variables are ignored. */
void settings_add_environment(struct settings *settings, char *(*get)(const char *name));

/** Writes the paths, separated by commas and truncated if they are long. */
#define SETTINGS_FILES_TEXT_MAX 256
void settings_format_files(const struct settings *settings, char out[SETTINGS_FILES_TEXT_MAX]);

/** Reads the log format, which is needed before the file. Sets LOG_TEXT on error (EINVAL). */
int settings_log_format(const struct settings *settings, enum log_format *out,
                        struct weir_error *error);

/** Reads all other settings, from the file and the defaults too. Errors: EINVAL, EUNSUPPORTED. */
int settings_resolve(const struct settings *settings, const struct weir_config *config,
                     struct settings_plan *out, struct weir_error *error);

#endif
