/*
 * script_reply.c: completes the commands of a script's call from its reply, and finds out from the
 * text of an error what it means for the call, its node and the connection.
 */
#include "redis/script_reply.h"

#include <string.h>

#include "base/os/prefetch.h"
#include "redis/commands.h"

static const struct {
	const char *code;
	enum error_effect error;
} errors[] = {
    {"NOSCRIPT", ERROR_NEEDS_SCRIPT},
    {"MOVED", ERROR_REDIRECTS},
    {"ASK", ERROR_REDIRECTS},
    {"TRYAGAIN", ERROR_IS_TRANSIENT},            /* only some keys of a moving slot are here */
    {"CLUSTERDOWN Hash slot", ERROR_FAILS_CALL}, /* no node serves this slot */
    {"CLUSTERDOWN", ERROR_NODE_UNAVAILABLE},     /* this node can't reach most of the others */
    {"BUSY", ERROR_NODE_UNAVAILABLE},            /* a script runs for too long */
    {"OOM", ERROR_NODE_UNAVAILABLE},             /* no memory for writes, ... */
    {"MISCONF", ERROR_NODE_UNAVAILABLE},         /* no disk for them, ... */
    {"NOREPLICAS", ERROR_NODE_UNAVAILABLE},      /* or too few replicas */
    {"NOPERM", ERROR_NODE_UNAVAILABLE}, /* the user may not call scripts, or not use these keys */
    {"ERR unknown command", ERROR_NODE_UNAVAILABLE}, /* not a Redis, or one without scripts */
    {"LOADING", ERROR_CONNECTION_USELESS},
    {"MASTERDOWN", ERROR_CONNECTION_USELESS},
    {"READONLY", ERROR_CONNECTION_USELESS},
    {"NOAUTH", ERROR_CONNECTION_USELESS},
};

/* The text after `mark`, or an empty slice if the text has no such mark. */
static struct slice text_after(struct slice text, struct slice mark)
{
	const char *found = text.len > 0 ? memmem(text.data, text.len, mark.data, mark.len) : NULL;

	if (!found)
		return (struct slice){0};
	found += mark.len;
	return (struct slice){found, text.len - (size_t)(found - text.data)};
}

/*
 * Redis 6 puts the location of an error within a script in front of its code, as in
 * "ERR Error running script (call to f_…): @user_script:1: -NOPERM …".
 */
static struct slice skip_script_location(struct slice text)
{
	struct slice rest = text, code;

	if (!slice_skip(&rest, SLICE("ERR Error running script")))
		return text;
	code = text_after(rest, SLICE(": -"));
	if (code.data)
		return code;
	code = text_after(rest, SLICE(": OOM "));
	return code.data ? (struct slice){code.data - strlen("OOM "), code.len + strlen("OOM ")} : rest;
}

/* Errors, without a code, that mean that the user may not run a command of the script. */
static const char *const refused_texts[] = {
    "The user executing the script can't",
    "ACL failure in script",
    "Unknown Redis command called from script",
};

static bool contains(struct slice text, const char *what)
{
	return text.len > 0 && memmem(text.data, text.len, what, strlen(what));
}

/* Whether Redis refused a command that a script calls, because of the rights of the user. */
static bool is_refused_within(struct slice text)
{
	struct slice error = skip_script_location(text);

	for (size_t i = 0; i < sizeof refused_texts / sizeof *refused_texts; i++)
		if (contains(text, refused_texts[i]))
			return true;
	return redis_error_is(error, "NOPERM") &&
	       (error.data != text.data || contains(text, "@user_script:"));
}

enum error_effect error_effect_of(struct slice text)
{
	if (is_refused_within(text))
		return ERROR_SCRIPT_REFUSED;
	text = skip_script_location(text);
	for (size_t i = 0; i < sizeof errors / sizeof *errors; i++)
		if (redis_error_is(text, errors[i].code))
			return errors[i].error;
	return ERROR_FAILS_CALL;
}

/* Commands are prefetched twice this many positions ahead, and their operations this many. */
#define PREFETCH_DISTANCE 3

/* Since the call was sent, its commands and their first operations have left the cache. */
static void prefetch_command(const struct script_call *call, size_t i)
{
	if (i + 2 * PREFETCH_DISTANCE < call->command_count)
		prefetch_all(call->commands[i + 2 * PREFETCH_DISTANCE], sizeof(struct redis_command));
	if (i + PREFETCH_DISTANCE < call->command_count)
		prefetch_all(call->commands[i + PREFETCH_DISTANCE]->operations,
		             sizeof(struct store_operation));
}

/* Whether a try has set the outcomes of the command's operations, so that these are complete. */
static bool has_outcomes(enum command_end end)
{
	return end == COMMAND_DONE || end == COMMAND_WITHHELD || end == COMMAND_UNDECIDED;
}

/*
 * Completes the commands of a call by the reply. Those that need another try go to `again`. Reads
 * all commands before it completes any, because command_read also reads the others of a group; and
 * completing an operation calls its `done`, which may submit more operations.
 */
void script_call_complete(struct redis_client *client, struct script_call *call,
                          const struct redis_reply *reply, struct command_list *again)
{
	enum command_end ends[CALL_COMMANDS_MAX];

	client->redis_clock_ns = command_clock(reply, call->command_count);
	/* The deadline was the timeout after sending. */
	client->batching.round_trip_ns =
	    sat_sub(client_now_ns(client) + client->store->options.timeout_ns, call->deadline_ns);
	for (size_t i = 0; i < call->command_count; i++) {
		prefetch_command(call, i);
		ends[i] = command_read(call->commands, call->command_count, i, reply, &client->result);
		if (has_outcomes(ends[i]))
			commands_set_outcomes(client, call->commands[i], ends[i]);
	}
	for (size_t i = 0; i < call->command_count; i++) {
		struct redis_command *command = call->commands[i];

		if (has_outcomes(ends[i]))
			commands_finish(client, command);
		else if (ends[i] == COMMAND_AGAIN)
			command_append(again, command);
		else if (ends[i] == COMMAND_LATER)
			command_retry_later(client, command);
		else
			commands_fail(client, command, WEIR_ESTORE);
	}
}

void script_call_fail(struct redis_client *client, struct script_call *call)
{
	for (size_t i = 0; i < call->command_count; i++)
		commands_fail(client, call->commands[i], WEIR_ESTORE);
}
