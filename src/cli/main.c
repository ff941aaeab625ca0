#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <weir/weir.h>

#include "base/login.h"
#include "cli/command.h"

static const struct {
	const char *name;
	command_run *run;
	const char *usage;
	const char *help;
	bool tells_more; /* by its own --help */
} commands[] = {
    {"serve", command_serve, "[-c FILE]... [--http ADDR] [--resp ADDR] [--store URL]\n"
                             "             [--capacity N] [--sync TIME] [--threads N]\n"
                             "             [--log-format text|json]",
     "decide for others, over HTTP and RESP"},
    {"lint", command_lint, "[--strict] [--to yaml] FILE...|-c FILE...",
     "check rule files, or print one as YAML"},
    {"ask", command_ask, "LIMIT KEY [--cost N] [--peek] [--server ADDR]",
     "get one decision from a server; ADDR is its RESP address, 127.0.0.1:6380 if left out"},
    {"store", command_store, "check|dump FILE, repair [--owner USER] [--group GROUP] FILE",
     "look into a table's file, or mend it"},
    {"simulate", command_simulate,
     "[-c FILE]... --trace FILE|--pattern NAME [--limit NAME...] [--key FIELD]\n"
     "             [--format NAME] [--html FILE] [--json] [--decisions FILE]",
     "replay a log through limits; see weir simulate --help", true},
    {"bench", command_bench, "[--server ADDR] [--rate R] [--duration TIME] [OPTION]...",
     "load a server and measure its answers; see weir bench --help", true},
};

#define COMMAND_COUNT (sizeof commands / sizeof *commands)

static int help(FILE *to, int status)
{
	fputs("usage: weir COMMAND\n\n", to);
	for (size_t i = 0; i < COMMAND_COUNT; i++)
		fprintf(to, "  weir %s %s\n             %s\n", commands[i].name, commands[i].usage,
		        commands[i].help);
	fputs("\n  weir --help, weir --version\n", to);
	return status;
}

/* `argv` is that of main, whose argv[1] is the command's name. */
static int run(size_t command, int argc, char **argv)
{
	static char long_help[] = "--help";
	bool help = argc > 2 && (strcmp(argv[2], long_help) == 0 || strcmp(argv[2], "-h") == 0);
	char title[32]; /* what getopt calls the program */

	if (help && !commands[command].tells_more) {
		printf("usage: weir %s %s\n\n%s\n", argv[1], commands[command].usage,
		       commands[command].help);
		return 0;
	}
	if (help)
		argv[2] = long_help;
	snprintf(title, sizeof title, "weir %s", argv[1]);
	argv[1] = title;
	return commands[command].run(argc - 1, argv + 1);
}

int main(int argc, char **argv)
{
	const char *name = argc > 1 ? argv[1] : NULL;
	char found[LOGIN_SHOWN_MAX];

	if (!name)
		return help(stderr, EXIT_USAGE);
	if (strcmp(name, "--help") == 0 || strcmp(name, "-h") == 0 || strcmp(name, "help") == 0)
		return help(stdout, 0);
	if (strcmp(name, "--version") == 0) {
		printf("weir %s\n", weir_version());
		return 0;
	}
	for (size_t i = 0; i < COMMAND_COUNT; i++)
		if (strcmp(name, commands[i].name) == 0)
			return run(i, argc, argv);
	login_hide_in_other(name, found);
	fprintf(stderr, "weir: expected a command, found '%s'; see weir --help\n", found);
	return EXIT_USAGE;
}
