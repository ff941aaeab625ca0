/*
 * top.c: the command `weir top`: shows the traffic of a running server, anew each second on a
 * terminal, or frame after frame elsewhere.
 */
#include "cli/command.h"
#include "cli/remote/json_members.h"
#include "cli/remote/top/terminal.h"
#include "cli/remote/top/top_frame.h"

#define INTERVAL_MS 1000

enum { ONCE, JSON, REMOTE };

static const struct flag flags[] = {
    [ONCE] = {"once", NULL, "print one frame", 0, NULL},
    [JSON] = {"json", NULL, "print a JSON object for each frame", 0, NULL},
    SERVER_FLAGS(SERVER_HTTP),
};

struct top_options {
	struct server_flags server;
	bool is_once, is_json;
};

/* Prints a frame without control sequences. Returns the exit status. */
static int print_frame(const struct top_options *options)
{
	struct buffer frame = {0};
	struct weir_error error;
	int status = 0;

	if (!top_frame_add(&frame, &options->server, options->is_json, &error))
		status = command_fail("top", "%s", error.message);
	else if (options->is_json)
		json_print(stdout, (struct slice){frame.data, frame.len});
	else
		fwrite(frame.data, 1, frame.len, stdout);
	buffer_free(&frame);
	fflush(stdout);
	return status != 0 || ferror(stdout) ? EXIT_USAGE : 0;
}

/* Shows a frame, or below the title why there is none: the server may come back. */
static void show_frame(const struct top_options *options)
{
	struct buffer frame = {0};
	struct weir_error error;

	if (!top_frame_add(&frame, &options->server, false, &error)) {
		frame.len = 0;
		buffer_add_text(&frame, "weir: ");
		buffer_add_printable(&frame, slice_of(error.message));
	}
	terminal_show((struct slice){frame.data, frame.failed ? 0 : frame.len});
	buffer_free(&frame);
}

/* Returns the exit status. */
static int run_frames(const struct top_options *options)
{
	struct buffer first = {0};
	struct weir_error error;
	int status;

	if (options->is_once)
		return print_frame(options);
	/* the first failure ends the command: the address or the login is probably wrong */
	if (!top_frame_add(&first, &options->server, false, &error)) {
		buffer_free(&first);
		return command_fail("top", "%s", error.message);
	}
	buffer_free(&first);
	if (options->is_json || !terminal_open()) {
		while ((status = print_frame(options)) == 0) {
			terminal_wait(INTERVAL_MS);
			if (!options->is_json)
				putchar('\n');
		}
		return status;
	}
	do
		show_frame(options);
	while (terminal_wait(INTERVAL_MS));
	terminal_close();
	return 0;
}

static int run_top(int argc, char **argv)
{
	struct top_options options = {0};
	struct arguments arguments;
	struct weir_error error;
	int flag, status;

	arguments_begin(&arguments, &command_top, argc, argv);
	while ((flag = arguments_next(&arguments)) >= 0) {
		if (flag == ONCE)
			options.is_once = true;
		else if (flag == JSON)
			options.is_json = true;
		else
			server_flags_set(&options.server, flag - REMOTE, arguments.value);
	}
	if (optind < argc)
		return arguments_refuse(&command_top, argv[optind]);
	status = server_flags_open(&options.server, SERVER_HTTP, &error) == WEIR_OK
	             ? run_frames(&options)
	             : command_fail("top", "%s", error.message);
	server_flags_close(&options.server);
	return status;
}

const struct command command_top = {
    .name = "top",
    .summary = "Show a server's traffic by limit, its open breakers and the keys denied most.",
    .uses = {"[--once] [--json] " SERVER_USE},
    .examples = {"weir top", "weir top --once --json"},
    .exits = "0, 2 on an error",
    COMMAND_FLAGS(flags),
    .variables = {CREDENTIALS_VARIABLES},
    .run = run_top,
};
