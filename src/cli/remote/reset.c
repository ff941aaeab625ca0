/* reset.c: the command `weir reset`: makes a limit of a running server forget a key. */
#include "cli/command.h"
#include "cli/remote/question.h"

static const struct flag flags[] = {SERVER_FLAGS(SERVER_RESP)};

/* Returns the exit status. */
static int reset_key(const struct server_flags *server, const struct question *question)
{
	struct question_answer answer;
	struct weir_error error;
	enum question_result result = question_ask(server, question, &answer, &error);

	arena_free(&answer.memory);
	if (result != QUESTION_ANSWERED) {
		command_fail("reset", "%s", error.message);
		return result == QUESTION_REFUSED ? 1 : EXIT_USAGE;
	}
	command_print_escaped(stdout, question->limit);
	putchar(' ');
	command_print_escaped(stdout, *question->key ? question->key : "(no key)");
	/* The answer does not say whether there was any use, so neither does this line. */
	printf(": no use is kept now");
	if (answer.quota > 0)
		printf(", %llu of %llu left", (unsigned long long)answer.remaining,
		       (unsigned long long)answer.quota);
	putchar('\n');
	return 0;
}

static int run_reset(int argc, char **argv)
{
	struct server_flags server = {0};
	struct question question = {.op = QUESTION_RESET};
	struct arguments arguments;
	struct weir_error error;
	int flag, status;

	arguments_begin(&arguments, &command_reset, argc, argv);
	while ((flag = arguments_next(&arguments)) >= 0)
		server_flags_set(&server, flag, arguments.value);
	if (argc - optind != 2)
		return command_fail("reset", "expected LIMIT KEY, found %d arguments", argc - optind);
	question.limit = argv[optind];
	question.key = argv[optind + 1];
	status = server_flags_open(&server, SERVER_RESP, &error) == WEIR_OK
	             ? reset_key(&server, &question)
	             : command_fail("reset", "%s", error.message);
	server_flags_close(&server);
	return status;
}

const struct command command_reset = {
    .name = "reset",
    .summary = "Make a limit of a server forget what a key has used.",
    .uses = {"LIMIT KEY " SERVER_USE},
    .note = "KEY is the name of the key that counts. A rule counts the network of an IPv6\n"
            "address: give 2001:db8:1:2::/64 for 2001:db8:1:2::7. To reset a key of several\n"
            "attributes, send those of a request over HTTP: POST /v1/reset with\n"
            "{\"attributes\":{\"user\":\"ann\",\"ip\":\"192.0.2.7\"}}.",
    .examples = {"weir reset login 203.0.113.9", "weir reset login 2001:db8:1:2::/64"},
    .exits = "0, 1 if the server refuses it to the user, 2 on an error",
    COMMAND_FLAGS(flags),
    .variables = {CREDENTIALS_VARIABLES},
    .run = run_reset,
};
