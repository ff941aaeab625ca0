/*
 * arguments.c: reads the flags of a command by getopt_long, and suggests a flag for a misspelled
 * one.
 */
#include <stdlib.h>
#include <string.h>

#include "base/text/store_url.h"
#include "base/text/misspelling.h"
#include "cli/command.h"

/* getopt returns a letter, or this and a flag's index for its long name. */
#define LONG_FLAG 256
#define HELP      (LONG_FLAG + COMMAND_FLAGS_MAX)

/* Translates the command's table of flags for getopt_long. */
void arguments_begin(struct arguments *arguments, const struct command *command, int argc,
                     char **argv)
{
	char *letters = arguments->letters;
	size_t i;

	*arguments = (struct arguments){.command = command, .argc = argc, .argv = argv};
	*letters++ = ':'; /* getopt returns ':' for a missing value, and prints no errors */
	for (i = 0; i < command->flag_count; i++) {
		const struct flag *flag = &command->flags[i];

		arguments->options[i] = (struct option){
		    flag->name, flag->value ? required_argument : no_argument, NULL, LONG_FLAG + (int)i};
		if (flag->letter)
			*letters++ = flag->letter;
		if (flag->letter && flag->value)
			*letters++ = ':';
	}
	*letters = 'h';
	arguments->options[i] = (struct option){"help", no_argument, NULL, HELP};
	optind = 0; /* start from the beginning, even if getopt was used before */
	opterr = 0;
}

/*
 * The flag whose name is misspelled in `text`; NULL if none is similar. Only flags of the table are
 * shown, since `text` may contain a secret.
 */
static const char *find_similar_flag(const struct command *command, const char *text)
{
	struct slice name = {text + 2, strcspn(text + 2, "=")};

	for (size_t i = 0; i < command->flag_count; i++)
		if (command->flags[i].help && is_misspelling(name, slice_of(command->flags[i].name)))
			return command->flags[i].name;
	return NULL;
}

/* Whether the command takes arguments that are no options, such as a key. */
static bool takes_arguments(const struct command *command)
{
	const char *use = command->uses[0];

	return use && *use != '-' && strncmp(use, "[-", 2) != 0;
}

/* Reports an unexpected argument, without its secrets. Returns the exit status. */
int arguments_refuse(const struct command *command, const char *argument)
{
	const char *similar =
	    strncmp(argument, "--", 2) == 0 ? find_similar_flag(command, argument) : NULL;
	char found[STORE_URL_SHOWN_MAX];

	store_url_redact_if_any(argument, found);
	if (similar)
		return command_fail(command->name, "expected an option, found '%s': did you mean --%s?",
		                    found, similar);
	return command_fail(command->name, "expected an option, found '%s'; see weir %s --help%s",
	                    found, command->name,
	                    argument[0] == '-' && takes_arguments(command)
	                        ? ", and write -- before an argument that begins with -"
	                        : "");
}

/* Prints why getopt refused a flag. Returns the exit status. */
static int report_invalid_flag(const struct arguments *arguments, int option)
{
	const struct command *command = arguments->command;
	const char *text = arguments->argv[optind - 1];

	if (option == ':')
		return command_fail(command->name, "expected a value after %s, found none", text);
	if (optopt >= LONG_FLAG) /* a long flag with a value that it does not take */
		return command_fail(command->name, "expected no value with --%s",
		                    optopt == HELP ? "help" : command->flags[optopt - LONG_FLAG].name);
	return arguments_refuse(command, text);
}

static int index_of_letter(const struct command *command, int letter)
{
	size_t i = 0;

	while (command->flags[i].letter != letter)
		i++;
	return (int)i;
}

/* Returns the index of the next flag, negative at the end. Exits on errors and --help. */
int arguments_next(struct arguments *arguments)
{
	int option =
	    getopt_long(arguments->argc, arguments->argv, arguments->letters, arguments->options, NULL);

	if (option == '?' || option == ':')
		exit(report_invalid_flag(arguments, option));
	if (option == HELP || option == 'h') {
		command_help(arguments->command, stdout);
		exit(0);
	}
	arguments->value = optarg;
	if (option < 0) /* after the last flag */
		return option;
	if (option >= LONG_FLAG)
		return option - LONG_FLAG;
	return index_of_letter(arguments->command, option);
}
