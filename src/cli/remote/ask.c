/*
 * ask.c: the command `weir ask`: asks a running server for one decision, by a limit and key or by
 * attributes of a request, and prints it.
 */
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/number.h"
#include "base/time/time_span.h"
#include "cli/command.h"
#include "cli/remote/question.h"

enum { ATTR, COST, PEEK, REMOTE };

static const struct flag flags[] = {
    [ATTR] = {"attr", "NAME=VALUE", "ask the rules about a request with this attribute; repeatable",
              0, NULL},
    [COST] = {"cost", "N", "units to consume; 0 consumes nothing (1)", 0, NULL},
    [PEEK] = {"peek", NULL, "consume nothing", 0, NULL},
    SERVER_FLAGS(SERVER_RESP),
};

/* The question of the user, and the server to ask. */
struct ask {
	struct question question;
	struct weir_attribute *attributes;
	struct arena memory; /* of their names */
	struct server_flags server;
};

/* Reads NAME=VALUE. The array has space for as many attributes as there are arguments. */
static int add_attribute(struct ask *ask, char *text)
{
	char *equals = strchr(text, '=');
	struct weir_attribute *attribute = &ask->attributes[ask->question.attribute_count];
	const char *name;

	if (!equals || equals == text)
		return command_fail("ask", "--attr: expected NAME=VALUE, found '%s'", text);
	name = arena_copy(&ask->memory, (struct slice){text, (size_t)(equals - text)});
	if (!name)
		return command_fail("ask", "out of memory");
	*attribute = (struct weir_attribute){name, equals + 1, strlen(equals + 1)};
	ask->question.attribute_count++;
	return 0;
}

/* Checks the arguments that are no flags, with the flags. Returns 0 or the exit status. */
static int read_limit_and_key(struct ask *ask, int argc, char **argv)
{
	struct question *question = &ask->question;
	bool has_attributes = question->attribute_count > 0;
	uint64_t cost;

	if (has_attributes && question->cost)
		return command_fail("ask", "expected --cost with LIMIT KEY, found it with --attr");
	if (question->cost && !parse_u64(slice_of(question->cost), &cost))
		return command_fail("ask", "--cost: expected a whole number, found '%s'", question->cost);
	if (argc - optind != (has_attributes ? 0 : 2))
		return command_fail("ask", "expected %s, found %d arguments",
		                    has_attributes ? "no more than --attr" : "LIMIT KEY or --attr",
		                    argc - optind);
	if (!has_attributes) {
		question->limit = argv[optind];
		question->key = argv[optind + 1];
	}
	return 0;
}

/* Reads the flags and arguments. Returns 0 or the exit status. */
static int read_question(struct ask *ask, int argc, char **argv)
{
	struct arguments arguments;
	int flag, status = 0;

	ask->attributes = calloc((size_t)argc, sizeof *ask->attributes);
	ask->question.attributes = ask->attributes;
	if (!ask->attributes)
		return command_fail("ask", "out of memory");
	arguments_begin(&arguments, &command_ask, argc, argv);
	while (status == 0 && (flag = arguments_next(&arguments)) >= 0) {
		if (flag == ATTR)
			status = add_attribute(ask, (char *)arguments.value);
		else if (flag == COST)
			ask->question.cost = arguments.value;
		else if (flag == PEEK)
			ask->question.op = QUESTION_PEEK;
		else
			server_flags_set(&ask->server, flag - REMOTE, arguments.value);
	}
	return status == 0 ? read_limit_and_key(ask, argc, argv) : status;
}

/* Appends the question, in the words of the user. */
static void add_question(struct buffer *text, const struct question *question)
{
	for (size_t i = 0; i < question->attribute_count; i++)
		buffer_printf(text, "%s%s=%s", i > 0 ? " " : "", question->attributes[i].name,
		              question->attributes[i].value);
	if (question->attribute_count == 0)
		buffer_printf(text, "%s %s", question->limit, question->key);
}

static void add_wait(struct buffer *text, const char *before, uint64_t ms)
{
	buffer_add_text(text, before);
	time_span_add_wait(text, ms);
}

/* Prints the decision. Returns the exit status. */
static int print_answer(const struct question *question, const struct question_answer *answer)
{
	struct slice limit = answer->limit, rule = answer->rule;
	bool has_attributes = question->attribute_count > 0;
	struct buffer text = {0};

	add_question(&text, question);
	buffer_printf(&text, ": %s (%.*s)", answer->is_allowed ? "allowed" : "denied",
	              (int)answer->reason.len, answer->reason.data);
	if (has_attributes && rule.len == 0)
		buffer_add_text(&text, " by no rule");
	else if (has_attributes)
		buffer_printf(&text, " by the rule %.*s%s%.*s", (int)rule.len, rule.data,
		              limit.len > 0 ? " and its limit " : "", (int)limit.len, limit.data);
	if (answer->quota > 0) /* some limits, such as `random`, have none */
		buffer_printf(&text, ", %llu of %llu left", (unsigned long long)answer->remaining,
		              (unsigned long long)answer->quota);
	if (!answer->is_allowed)
		add_wait(&text, ", retry in ", answer->retry_after_ms);
	add_wait(&text, ", reset in ", answer->reset_after_ms);
	buffer_add(&text, "", 1);
	if (text.failed)
		return command_fail("ask", "out of memory");
	command_print_escaped(stdout, text.data);
	putchar('\n');
	buffer_free(&text);
	return answer->is_allowed ? 0 : 1;
}

static int run_ask(int argc, char **argv)
{
	struct ask ask = {0};
	struct question_answer answer = {0};
	struct weir_error error;
	int status = read_question(&ask, argc, argv);

	if (status == 0 && server_flags_open(&ask.server, SERVER_RESP, &error) != WEIR_OK)
		status = command_fail("ask", "%s", error.message);
	if (status == 0)
		status = question_ask(&ask.server, &ask.question, &answer, &error) == QUESTION_ANSWERED
		             ? print_answer(&ask.question, &answer)
		             : command_fail("ask", "%s", error.message);
	arena_free(&answer.memory);
	arena_free(&ask.memory);
	server_flags_close(&ask.server);
	free(ask.attributes);
	return status;
}

const struct command command_ask = {
    .name = "ask",
    .summary = "Ask a server for one decision, by a limit or by the rules.",
    .uses = {"LIMIT KEY [--cost N] [--peek] " SERVER_USE,
             "--attr NAME=VALUE... [--peek] " SERVER_USE},
    .examples = {"weir ask login 203.0.113.9",
                 "weir ask --attr path=/login --attr ip=203.0.113.9 --peek"},
    .exits = "0 if it is allowed, 1 if it is denied, 2 on an error",
    COMMAND_FLAGS(flags),
    .variables = {CREDENTIALS_VARIABLES},
    .run = run_ask,
};
