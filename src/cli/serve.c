#include <getopt.h>
#include <stdio.h>

#include "cli/command.h"
#include "server/server.h"

int command_serve(int argc, char **argv)
{
	static const struct option options[] = {
#define SETTING_OPTION(name, flag, variable) {flag, required_argument, NULL, 256 + SETTING_##name},
	    SETTING_LIST(SETTING_OPTION)
#undef SETTING_OPTION
	    {0}};
	struct settings settings = {0};
	int option;

	while ((option = getopt_long(argc, argv, "c:", options, NULL)) != -1) {
		if (option == '?')
			return EXIT_USAGE;
		settings_add(&settings, option == 'c' ? SETTING_CONFIG : option - 256, optarg);
	}
	if (settings.file_count > SETTINGS_FILES_MAX) {
		fprintf(stderr, "weir serve: expected at most %d files, found more\n", SETTINGS_FILES_MAX);
		return EXIT_USAGE;
	}
	if (optind < argc) {
		fprintf(stderr, "weir serve: expected an option, found '%s'\n", argv[optind]);
		return EXIT_USAGE;
	}
	return server_run(&settings);
}
