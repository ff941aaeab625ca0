/* command.h: what a subcommand is to main.c. */
#ifndef CLI_COMMAND_H
#define CLI_COMMAND_H

#define EXIT_USAGE 2

/* Takes its own name as argv[0], returns the exit status. */
typedef int command_run(int argc, char **argv);

command_run command_serve, command_lint, command_ask, command_store,
    command_bench, command_simulate;

#endif
