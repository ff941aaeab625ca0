#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/login.h"
#include "cli/command.h"
#include "server/server.h"

/* Lists of processes show arguments to everyone: a login is taken out of them. NULL: no memory. */
static char *take_store(char *text)
{
	char *copy = strdup(text);
	struct slice login = login_find(text).login;

	if (login.len > 0)
		memset(text + (login.data - text), '*', login.len);
	return copy;
}

/* An option that is none may hold a URL, as in --stores=redis://… */
static int refuse_argument(const char *text, bool lacks_value)
{
	struct weir_error error;

	if (lacks_value)
		return command_fail("serve", "expected a value behind %s, found none", text);
	command_no_option(text, &error);
	return command_fail("serve", "%s", error.message);
}

static int serve(int argc, char **argv, char **store)
{
	static const struct option options[] = {
#define SETTING_OPTION(name, flag, variable) {flag, required_argument, NULL, 256 + SETTING_##name},
	    SETTING_LIST(SETTING_OPTION)
#undef SETTING_OPTION
	    {0}};
	struct settings settings = {0};
	int option;

	opterr = 0;
	while ((option = getopt_long(argc, argv, ":c:", options, NULL)) != -1) {
		if (option == '?' || option == ':')
			return refuse_argument(argv[optind - 1], option == ':');
		settings_add(&settings, option == 'c' ? SETTING_CONFIG : option - 256, optarg);
		if (option - 256 != SETTING_STORE)
			continue;
		free(*store);
		*store = take_store(optarg);
		if (!*store)
			return command_fail("serve", "out of memory");
		settings.text[SETTING_STORE] = *store;
	}
	if (settings.file_count > SETTINGS_FILES_MAX)
		return command_fail("serve", "expected at most %d files, found more", SETTINGS_FILES_MAX);
	return optind < argc ? refuse_argument(argv[optind], false) : server_run(&settings);
}

int command_serve(int argc, char **argv)
{
	char *store = NULL;
	int result = serve(argc, argv, &store);

	free(store);
	return result;
}
