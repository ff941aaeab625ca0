/* command.h: what a subcommand is to main.c, to its help and to the manual. */
#ifndef CLI_COMMAND_H
#define CLI_COMMAND_H

#include <getopt.h>
#include <stddef.h>
#include <stdio.h>

#define EXIT_USAGE 2

#define COMMAND_FLAGS_MAX 32

/* Takes an array whose size is known; with more than COMMAND_FLAGS_MAX it does not compile. */
#define COMMAND_FLAGS(table)                                                                       \
	.flags = (table),                                                                              \
	.flag_count = sizeof(table) / sizeof *(table) +                                                \
	              0 * sizeof(char[sizeof(table) / sizeof *(table) > COMMAND_FLAGS_MAX ? -1 : 1])

struct flag {
	const char *name;     /* as in --NAME */
	const char *value;    /* its argument, such as FILE, or NULL */
	const char *help;     /* its purpose and default; a flag without a help text is shown nowhere */
	char letter;          /* as in -c, or 0 */
	const char *variable; /* the environment's, which counts if there is no flag, or NULL */
};

struct variable {
	const char *name; /* of the environment */
	const char *help; /* its meaning */
};

/* Takes its own name as argv[0], returns the exit status. */
typedef int command_run(int argc, char **argv);

#define COMMAND_USES_MAX      4
#define COMMAND_VARIABLES_MAX 2

struct command {
	const char *name, *summary;
	const char *uses[COMMAND_USES_MAX + 1]; /* ways to call it: what stands behind its name */
	const char *exits;                      /* the meaning of its exit statuses */
	const struct flag *flags;
	size_t flag_count;
	struct variable variables[COMMAND_VARIABLES_MAX + 1]; /* that no flag replaces */
	command_run *run;
};

extern const struct command command_serve, command_lint, command_ask, command_store,
    command_simulate, command_bench, command_passwd;

/* The arguments of a command, flag by flag. */
struct arguments {
	const struct command *command;
	int argc;
	char **argv;
	const char *value; /* of the flag that was found */
	struct option options[COMMAND_FLAGS_MAX + 2];
	char letters[2 * COMMAND_FLAGS_MAX + 3];
};

void arguments_begin(struct arguments *arguments, const struct command *command, int argc,
                     char **argv);

/**
 * The next flag, as its place in the command's table. Negative: what is left stands in argv from
 * optind on. Ends the program once it has told the help (0), or what is wrong (EXIT_USAGE).
 */
int arguments_next(struct arguments *arguments);

/** Tells that an argument is one too many; returns EXIT_USAGE. */
int arguments_refuse(const struct command *command, const char *argument);

/** `weir help COMMAND`. */
void command_help(const struct command *command, FILE *to);

/** All commands and flags as JSON: what the manual and completions are made from. Returns the exit
 * status. */
int command_list_json(const struct command *const *commands, size_t count, FILE *to);

/** Prints `text`, which may be a server's or a key, such that no terminal obeys it. */
void command_print_escaped(FILE *to, const char *text);

/** Tells on stderr, by command_print_escaped, why `weir COMMAND` failed, and returns EXIT_USAGE. */
int command_fail(const char *command, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
