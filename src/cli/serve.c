/*
 * serve.c: the command `weir serve`: reads its flags and runs the server, which lives in
 * src/server.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/store_url.h"
#include "cli/command.h"
#include "server/start/server.h"

/*
 * Copies the URL of a store and overwrites its secrets in the argument, which other users can read
 * in the list of processes. Returns NULL if there is no memory.
 */
static char *copy_store_url(char *text)
{
	char *copy = strdup(text), *sentinel_login = strstr(text, "sentinel_");
	struct slice login = store_url_split(text).login;

	if (sentinel_login) /* the login of Sentinels, and all text after it */
		memset(sentinel_login, '*', strlen(sentinel_login));
	if (login.len > 0)
		memset(text + (login.data - text), '*', login.len);
	return copy;
}

/* Indexed by enum setting. */
static const struct flag flags[] = {
    [SETTING_CONFIG] = {"config", "FILE", "a configuration file; repeat for several", 'c',
                        "WEIR_CONFIG"},
    [SETTING_HTTP] = {"http", "ADDR", "address for HTTP (127.0.0.1:8080)", 0, "WEIR_HTTP"},
    [SETTING_RESP] = {"resp", "ADDR", "address for RESP (127.0.0.1:6380)", 0, "WEIR_RESP"},
    [SETTING_GRPC] = {"grpc", "ADDR", NULL, 0, "WEIR_GRPC"},
    [SETTING_STORE] = {"store", "URL",
                       "where to store counts: memory, file:PATH or a Redis URL (memory)", 0,
                       "WEIR_STORE"},
    [SETTING_CAPACITY] = {"capacity", "N",
                          "keys to count at once (1000000, or the capacity of the file store)", 0,
                          "WEIR_CAPACITY"},
    [SETTING_SYNC] = {"sync", "TIME",
                      "how often to write a file store to the disk (only at the end)", 0,
                      "WEIR_SYNC"},
    [SETTING_THREADS] = {"threads", "N", "threads that decide (one for each processor)", 0,
                         "WEIR_THREADS"},
    [SETTING_LOG_FORMAT] = {"log-format", "FORMAT", "format of the log: text or json (text)", 0,
                            "WEIR_LOG_FORMAT"},
};

/*
 * Runs the server, which reads the environment. `*store` becomes a copy of the URL of --store,
 * which the caller frees.
 */
static int read_flags_and_serve(int argc, char **argv, char **store)
{
	struct settings settings = {0};
	struct arguments arguments;
	int flag;

	arguments_begin(&arguments, &command_serve, argc, argv);
	while ((flag = arguments_next(&arguments)) >= 0) {
		settings_add(&settings, (enum setting)flag, arguments.value);
		if (flag != SETTING_STORE)
			continue;
		free(*store);
		*store = copy_store_url(optarg); /* arguments.value, in argv: not const */
		if (!*store)
			return command_fail("serve", "out of memory");
		settings.text[SETTING_STORE] = *store;
	}
	if (settings.file_count > SETTINGS_FILES_MAX)
		return command_fail("serve", "expected at most %d files, found more", SETTINGS_FILES_MAX);
	if (optind < argc)
		return arguments_refuse(&command_serve, argv[optind]);
	return server_run(&settings);
}

static int run_serve(int argc, char **argv)
{
	char *store = NULL;
	int result = read_flags_and_serve(argc, argv, &store);

	free(store);
	return result;
}

const struct command command_serve = {
    .name = "serve",
    .summary = "Serve decisions over HTTP and RESP.",
    .uses = {"[-c FILE]... [FLAG]..."},
    .examples = {"weir serve -c weir.yaml",
                 "weir serve -c weir.yaml --http 0.0.0.0:8080 --store redis://127.0.0.1:6379/0"},
    .exits = "0 after SIGTERM or SIGINT, 1 if it can't start, 2 for a wrong argument",
    COMMAND_FLAGS(flags),
    .run = run_serve,
};
