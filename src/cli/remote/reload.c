/* reload.c: the command `weir reload`: makes a running server read its configuration again. */
#include "cli/command.h"
#include "cli/remote/call.h"
#include "cli/remote/json_members.h"

#define NOT_VALID 400 /* the status of a configuration with mistakes */

static const struct flag flags[] = {SERVER_FLAGS(SERVER_HTTP)};

/* Prints the settings of the list, which the reload could not change. */
static void print_restart_needed(struct slice settings)
{
	struct buffer text = {0};
	struct json list;
	struct slice setting;

	if (json_list_open(&list, settings))
		while (json_list_next(&list, &setting)) {
			buffer_add_text(&text, text.len > 0 ? ", " : "a restart is needed for ");
			buffer_add_slice(&text, json_value_text(setting));
		}
	buffer_add(&text, "", 1);
	if (!text.failed && *text.data) {
		command_print_escaped(stdout, text.data);
		putchar('\n');
	}
	buffer_free(&text);
}

/* Returns the exit status. */
static int reload_server(const struct server_flags *server)
{
	const struct call call = {.method = "POST", .path = "/v1/reload", .is_patient = true};
	struct http_reply reply = {0};
	struct json_member members[] = {{"ok", {0}}, {"restart_needed", {0}}};
	struct weir_error error;
	enum call_result result = call_server(server, &call, &reply, &error);
	int status = EXIT_USAGE;

	if (result == CALL_DONE && json_members_read(call_body(&reply), members, 2) &&
	    json_value_is_true(members[0].value)) {
		printf("reloaded\n");
		if (members[1].value.data)
			print_restart_needed(members[1].value);
		status = 0;
	} else {
		if (result == CALL_DONE)
			call_misunderstood(server, &error);
		call_fail("reload", &reply, &error);
		if (result == CALL_REFUSED || (result == CALL_FAILED && reply.status == NOT_VALID))
			status = 1;
	}
	http_reply_free(&reply);
	return status;
}

static int run_reload(int argc, char **argv)
{
	struct server_flags server = {0};
	struct arguments arguments;
	struct weir_error error;
	int flag, status;

	arguments_begin(&arguments, &command_reload, argc, argv);
	while ((flag = arguments_next(&arguments)) >= 0)
		server_flags_set(&server, flag, arguments.value);
	if (optind < argc)
		return arguments_refuse(&command_reload, argv[optind]);
	status = server_flags_open(&server, SERVER_HTTP, &error) == WEIR_OK
	             ? reload_server(&server)
	             : command_fail("reload", "%s", error.message);
	server_flags_close(&server);
	return status;
}

const struct command command_reload = {
    .name = "reload",
    .summary = "Make a server read its configuration again, and say whether it could.",
    .uses = {SERVER_USE},
    .examples = {"weir reload", "weir reload --server https://limits.example.com --user ops"},
    .exits = "0 if it is in force, 1 if the server refuses it or finds mistakes, 2 on an error",
    COMMAND_FLAGS(flags),
    .variables = {CREDENTIALS_VARIABLES},
    .run = run_reload,
};
