/* main.c: the program `weir`: runs the command that its first argument names. */
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include <weir/weir.h>

#include "base/text/store_url.h"
#include "base/text/misspelling.h"
#include "cli/command.h"

static const struct command *const commands[] = {
    &command_serve, &command_lint,   &command_ask,    &command_why, &command_digest,
    &command_reset, &command_reload, &command_status, &command_top, &command_simulate,
    &command_bench, &command_store,  &command_passwd};

#define COMMAND_COUNT (sizeof commands / sizeof *commands)

/* The commands of which the first example shows, in this order, what Weir is for. */
static const struct command *const shown_by_example[] = {
    &command_lint, &command_serve, &command_ask, &command_why, &command_simulate};

static int print_help(FILE *to, int status)
{
	fputs("usage: weir COMMAND [ARGUMENT]...\n\n", to);
	for (size_t i = 0; i < COMMAND_COUNT; i++)
		fprintf(to, "  %-9s %s\n", commands[i]->name, commands[i]->summary);
	fputs("\nExamples:\n", to);
	for (size_t i = 0; i < sizeof shown_by_example / sizeof *shown_by_example; i++)
		fprintf(to, "  %s\n", shown_by_example[i]->examples[0]);
	fputs("\nweir help COMMAND shows its flags, weir --version the version.\n", to);
	return status;
}

static const struct command *find_command(const char *name)
{
	for (size_t i = 0; i < COMMAND_COUNT; i++)
		if (strcmp(name, commands[i]->name) == 0)
			return commands[i];
	return NULL;
}

static int report_unknown_command(const char *name)
{
	char found[STORE_URL_SHOWN_MAX];

	store_url_redact_if_any(name, found);
	for (size_t i = 0; i < COMMAND_COUNT; i++)
		if (is_misspelling(slice_of(name), slice_of(commands[i]->name))) {
			fprintf(stderr, "weir: expected a command, found '%s': did you mean %s?\n", found,
			        commands[i]->name);
			return EXIT_USAGE;
		}
	fprintf(stderr, "weir: expected a command, found '%s'; see weir --help\n", found);
	return EXIT_USAGE;
}

/* `weir help` with the name of a command, or NULL. */
static int run_help(const char *name)
{
	const struct command *command = name ? find_command(name) : NULL;

	if (!name)
		return print_help(stdout, 0);
	if (strcmp(name, "--json") == 0)
		return command_list_json(commands, COMMAND_COUNT, stdout);
	if (!command)
		return report_unknown_command(name);
	command_help(command, stdout);
	return 0;
}

static bool is_either(const char *text, const char *one, const char *other)
{
	return strcmp(text, one) == 0 || strcmp(text, other) == 0;
}

int main(int argc, char **argv)
{
	const char *name = argc > 1 ? argv[1] : NULL;
	const struct command *command = name ? find_command(name) : NULL;

	if (command)
		return command->run(argc - 1, argv + 1);
	if (!name)
		return print_help(stderr, EXIT_USAGE);
	if (is_either(name, "--help", "-h"))
		return print_help(stdout, 0);
	if (strcmp(name, "help") == 0)
		return run_help(argv[2]);
	if (is_either(name, "--version", "-V")) {
		printf("weir %s\n", weir_version());
		return 0;
	}
	return report_unknown_command(name);
}
