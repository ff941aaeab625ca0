/* command.h: describes a subcommand (name, flags, help) and reads its arguments. */
#ifndef CLI_COMMAND_H
#define CLI_COMMAND_H

#include <getopt.h>
#include <stddef.h>
#include <stdio.h>

#define EXIT_USAGE 2

#define COMMAND_FLAGS_MAX 32

/* Sets the flags of a command from an array. More than COMMAND_FLAGS_MAX do not compile. */
#define COMMAND_FLAGS(table)                                                                       \
	.flags = (table),                                                                              \
	.flag_count = sizeof(table) / sizeof *(table) +                                                \
	              0 * sizeof(char[sizeof(table) / sizeof *(table) > COMMAND_FLAGS_MAX ? -1 : 1])

struct flag {
	const char *name;     /* as in --NAME */
	const char *value;    /* the name of its argument, such as FILE; NULL if it has none */
	const char *help;     /* purpose and default; NULL for a flag that is not shown */
	char letter;          /* as in -c, or 0 */
	const char *variable; /* environment variable that counts without the flag, or NULL */
};

struct variable {
	const char *name; /* of the environment */
	const char *help; /* its meaning */
};

/* Runs a command, whose name is argv[0]; returns the exit status. */
typedef int command_run(int argc, char **argv);

#define COMMAND_USES_MAX      5
#define COMMAND_VARIABLES_MAX 2
#define COMMAND_EXAMPLES_MAX  3

struct command {
	const char *name, *summary;
	const char *uses[COMMAND_USES_MAX + 1];         /* usages, without its name; ended by NULL */
	const char *examples[COMMAND_EXAMPLES_MAX + 1]; /* lines for a shell; ended by NULL */
	const char *note;                               /* more about it, in lines; or NULL */
	const char *exits;                              /* the meaning of its exit statuses */
	const struct flag *flags;
	size_t flag_count;
	struct variable variables[COMMAND_VARIABLES_MAX + 1]; /* without a flag of the same effect */
	command_run *run;
};

extern const struct command command_serve, command_lint, command_ask, command_store,
    command_simulate, command_bench, command_passwd, command_why, command_digest, command_reset,
    command_reload, command_status, command_top;

/* Reads the arguments of a command, one flag at a time. */
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
 * Returns the next flag, as its index in the command's table. Negative after the last one: the
 * other arguments are in argv from optind on. Exits after --help (0) or an error (EXIT_USAGE).
 */
int arguments_next(struct arguments *arguments);

/** Reports an unexpected argument; returns EXIT_USAGE. */
int arguments_refuse(const struct command *command, const char *argument);

/** Prints the help of a command. */
void command_help(const struct command *command, FILE *to);

/**
 * Prints all commands and flags as JSON, from which manual pages and completions are generated.
 * Returns the exit status.
 */
int command_list_json(const struct command *const *commands, size_t count, FILE *to);

/** Prints `text`, which may come from a server, with its control characters escaped. */
void command_print_escaped(FILE *to, const char *text);

/** Prints on stderr, escaped, why `weir COMMAND` failed; returns EXIT_USAGE. */
int command_fail(const char *command, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

#endif
