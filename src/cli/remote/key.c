/* key.c: the command `weir key`: prints the digest by which a server shows a key. */
#include "base/buffer.h"
#include "base/error.h"
#include "cli/command.h"
#include "cli/remote/digest.h"

static const struct flag flags[] = {SERVER_FLAGS(SERVER_HTTP)};

/* Returns the exit status. */
static int print_digest(const struct server_flags *server, const char *key)
{
	struct buffer text = {0};
	int status = digest_ask("key", server, key, &text);

	buffer_add(&text, "\n", 1);
	if (status == 0)
		fwrite(text.data, 1, text.failed ? 0 : text.len, stdout);
	buffer_free(&text);
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
	             ? print_digest(&server, argv[optind])
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
