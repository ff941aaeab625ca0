/* command.h: what a subcommand is to main.c. */
#ifndef CLI_COMMAND_H
#define CLI_COMMAND_H

#include <stdio.h>

#define EXIT_USAGE 2

/* Takes its own name as argv[0], returns the exit status. */
typedef int command_run(int argc, char **argv);

/** Prints `text`, which may be a server's or a key, such that no terminal obeys it. */
void command_show(FILE *to, const char *text);

/** Tells on stderr, by command_show, why `weir COMMAND` failed, and returns EXIT_USAGE. */
int command_fail(const char *command, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

struct weir_error;

/** EINVAL, with words: `text` is no option, and maybe a URL of which no login is shown. */
int command_no_option(const char *text, struct weir_error *error);

command_run command_serve, command_lint, command_ask, command_store,
    command_bench, command_simulate;

#endif
