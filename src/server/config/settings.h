/* settings.h: how the server is to run: flags beat the environment, which beats the file. */
#ifndef SERVER_SETTINGS_H
#define SERVER_SETTINGS_H

#include <weir/rules.h>

#include "net/address.h"
#include "server/admin/log.h"

/* Each is a flag --NAME and a variable WEIR_NAME. */
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
	const char *text[SETTING_COUNT];           /* as given; NULL: not given */
	const char *files[SETTINGS_FILES_MAX + 1]; /* of each CONFIG; one more than may be */
	size_t file_count;
};

#define SETTINGS_CAPACITY_DEFAULT 1000000 /* as the library's */
#define SETTINGS_PATH_MAX         4096    /* with its NUL, as Linux has it */

/* The same, understood. */
struct settings_plan {
	struct net_address http, resp;
	struct net_address admin;     /* without a family: none */
	bool tls;                     /* for those that are not `plain` */
	char path[SETTINGS_PATH_MAX]; /* of the table's file; empty: in memory */
	const char *redis;            /* where limits are that name no store: a URL; NULL: the table */
	uint64_t owner, group;        /* of that file, as struct weir_table_options has them */
	uint64_t capacity;            /* 0: the file's, or the default of a new one */
	uint64_t sync_ns;             /* between two writings of the file to the disk; 0: none */
	uint64_t threads;
};

#define SETTINGS_THREADS_MAX 256

/** A flag: a setting, of which the last counts, or one more file. */
void settings_add(struct settings *settings, enum setting setting, const char *text);

/** Fills in what no flag gave; `get` is getenv. An empty variable is not set. */
void settings_add_environment(struct settings *settings, char *(*get)(const char *name));

/** The paths with commas between them, cut where there are many. */
#define SETTINGS_NAMES_MAX 256
void settings_names(const struct settings *settings, char out[SETTINGS_NAMES_MAX]);

/** text or json, which is needed before there is a file; text on error (EINVAL). */
int settings_log_format(const struct settings *settings, enum log_format *out,
                        struct weir_error *error);

/** Fills in the rest from the file and the defaults. Errors: EINVAL, EUNSUPPORTED. */
int settings_resolve(const struct settings *settings, const struct weir_config *config,
                     struct settings_plan *out, struct weir_error *error);

#endif
