/* key.c: the command `weir key`: prints the digest by which a server shows a key. */
#include "base/error.h"
#include "base/buffer.h"
#include "cli/command.h"
#include "cli/remote/call.h"
#include "cli/remote/json_members.h"

static const struct flag flags[] = {SERVER_FLAGS(SERVER_HTTP)};

/* Prints the digest of {"digest":…}. Returns the exit status. */
static int print_digest(const struct server_flags *server, struct slice body)
{
	struct json_member members[] = {{"digest", {0}}};
	struct buffer text = {0};
	struct weir_error error;

	if (!json_members_read(body, members, 1) || !members[0].value.data) {
		call_misunderstood(server, &error);
		return command_fail("key", "%s", error.message);
	}
	buffer_add_printable(&text, json_value_text(members[0].value));
	buffer_add(&text, "\n", 1);
	fwrite(text.data, 1, text.failed ? 0 : text.len, stdout);
	buffer_free(&text);
	return 0;
}

/* Returns the exit status. */
static int ask_digest(const struct server_flags *server, const char *key)
{
	struct buffer body = {0};
	struct call call = {.method = "POST", .path = "/v1/key"};
	struct http_reply reply = {0};
	struct weir_error error;
	int status = EXIT_USAGE;

	if (call_add_text(&body, "key", key, &error)) {
		buffer_add_text(&body, "}");
		call.body = (struct slice){body.data, body.len};
		if (body.failed)
			error_set(&error, WEIR_ENOMEM, "out of memory");
		else if (call_server(server, &call, &reply, &error) == CALL_DONE)
			status = 0;
	}
	status =
	    status == 0 ? print_digest(server, call_body(&reply)) : call_fail("key", &reply, &error);
	http_reply_free(&reply);
	buffer_free(&body);
	return status;
}

static int run_key(int argc, char **argv)
{
	struct server_flags server = {0};
	struct arguments arguments;
	struct weir_error error;
	int flag, status;

	arguments_begin(&arguments, &command_digest, argc, argv);
	while ((flag = arguments_next(&arguments)) >= 0)
		server_flags_set(&server, flag, arguments.value);
	if (argc - optind != 1)
		return command_fail("key", "expected KEY, found %d arguments", argc - optind);
	status = server_flags_open(&server, SERVER_HTTP, &error) == WEIR_OK
	             ? ask_digest(&server, argv[optind])
	             : command_fail("key", "%s", error.message);
	server_flags_close(&server);
	return status;
}

const struct command command_digest = {
    .name = "key",
    .summary = "Print the digest by which a server's log and denials show a key.",
    .uses = {"KEY " SERVER_USE},
    .examples = {"weir key 203.0.113.9"},
    .exits = "0, 2 on an error",
    COMMAND_FLAGS(flags),
    .variables = {CREDENTIALS_VARIABLES},
    .run = run_key,
};
