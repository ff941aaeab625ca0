/*
 * resp_local.c: answers commands of Redis about the server itself, which its clients send to learn
 * about it: PING, ECHO, COMMAND, INFO, CONFIG and ACL.
 */
#include "proto/resp/resp_call.h"

#include <ctype.h>
#include <stdio.h>

void resp_run_ping(const struct resp_call *call)
{
	if (call->word_count > 1)
		resp_write_bulk(call->out, call->words[1]);
	else
		buffer_add_text(call->out, "+PONG\r\n");
}

void resp_run_echo(const struct resp_call *call)
{
	resp_write_bulk(call->out, call->words[1]);
}

void resp_run_ok(const struct resp_call *call)
{
	resp_call_write_ok(call);
}

/* Writes the name of a command as Redis does, in small letters. */
static void write_lower(struct buffer *out, struct slice name)
{
	char *to;

	resp_write_length(out, '$', name.len);
	to = buffer_reserve(out, name.len);
	if (!to)
		return;
	for (size_t i = 0; i < name.len; i++)
		to[i] = (char)tolower((unsigned char)name.data[i]);
	out->len += name.len;
	buffer_add(out, "\r\n", 2);
}

/*
 * Describes a command as COMMAND INFO of Redis does: name, arity (the number of words; negative if
 * there may be more), flags, and where the keys are: the first and last word, and the step.
 */
static void write_spec(struct buffer *out, const struct resp_spec *spec)
{
	bool has_fixed_length = spec->min_words == spec->max_words, has_key = spec->key_index != 0;
	const char *flags = !has_key                   ? "*1\r\n+fast\r\n"
	                    : spec->op == REQUEST_PEEK ? "*2\r\n+readonly\r\n+fast\r\n"
	                                               : "*2\r\n+write\r\n+fast\r\n";

	resp_write_length(out, '*', 6);
	write_lower(out, spec->name);
	resp_write_integer(out, has_fixed_length ? spec->min_words : -(int)spec->min_words);
	buffer_add_text(out, flags);
	resp_write_integer(out, spec->key_index);
	resp_write_integer(out, spec->has_many_keys ? -1 : spec->key_index);
	resp_write_integer(out, has_key);
}

/* COMMAND and COMMAND INFO [name ...]: describes the named commands, or all. */
static void command_info(const struct resp_call *call)
{
	size_t count;
	const struct resp_spec *specs = resp_specs(&count);

	if (call->word_count <= 2) {
		resp_write_length(call->out, '*', count);
		for (size_t i = 0; i < count; i++)
			write_spec(call->out, &specs[i]);
		return;
	}
	resp_write_length(call->out, '*', call->word_count - 2);
	for (size_t i = 2; i < call->word_count; i++) {
		const struct resp_spec *spec = resp_spec_find(call->words[i]);

		if (spec)
			write_spec(call->out, spec);
		else
			buffer_add_text(call->out, call->session->protocol_version == 3 ? "_\r\n" : "*-1\r\n");
	}
}

static void command_count(const struct resp_call *call)
{
	size_t count;

	resp_specs(&count);
	resp_write_integer(call->out, (int64_t)count);
}

static void command_list(const struct resp_call *call)
{
	size_t count;
	const struct resp_spec *specs = resp_specs(&count);

	resp_write_length(call->out, '*', count);
	for (size_t i = 0; i < count; i++)
		write_lower(call->out, specs[i].name);
}

/* Documents no command; redis-cli then completes by the names of COMMAND. */
static void command_docs(const struct resp_call *call)
{
	resp_call_begin_map(call, 0);
}

void resp_run_command(const struct resp_call *call)
{
	static const struct resp_subcommand table[] = {
	    {SLICE("INFO"), 2, RESP_ARGS_ANY, "[command ...]", command_info},
	    {SLICE("COUNT"), 2, 2, "", command_count},
	    {SLICE("LIST"), 2, 2, "", command_list},
	    {SLICE("DOCS"), 2, RESP_ARGS_ANY, "[command ...]", command_docs},
	};

	if (call->word_count == 1)
		command_info(call);
	else
		RESP_RUN_SUBCOMMAND(table);
}

void resp_run_info(const struct resp_call *call)
{
	char text[256];
	int len = snprintf(text, sizeof text,
	                   "# Server\r\nredis_version:%s\r\nredis_mode:standalone\r\n"
	                   "weir_version:%s\r\narch_bits:%zu\r\n\r\n"
	                   "# Persistence\r\nloading:0\r\n\r\n"
	                   "# Replication\r\nrole:master\r\nconnected_slaves:0\r\n",
	                   RESP_REDIS_VERSION, weir_version(), 8 * sizeof(void *));

	resp_call_write_text(call, (struct slice){text, (size_t)len});
}

/* Settings by which clients learn about a server; redis-benchmark reads the first two. */
static const struct {
	struct slice name, value;
} settings[] = {
    {SLICE("save"), SLICE("")},
    {SLICE("appendonly"), SLICE("no")},
    {SLICE("databases"), SLICE("16")},
    {SLICE("maxmemory"), SLICE("0")},
};

#define SETTING_COUNT (sizeof settings / sizeof *settings)

/* Whether CONFIG GET, with `n` words, names the setting, or all by "*". */
static bool is_requested(struct slice name, const struct slice *args, size_t n)
{
	for (size_t i = 2; i < n; i++)
		if (slice_equal(args[i], SLICE("*")) || slice_equal_nocase(args[i], name))
			return true;
	return false;
}

static void config_get(const struct resp_call *call)
{
	uint64_t found = 0;

	for (size_t i = 0; i < SETTING_COUNT; i++)
		found += is_requested(settings[i].name, call->words, call->word_count);
	resp_call_begin_map(call, found);
	for (size_t i = 0; i < SETTING_COUNT; i++) {
		if (!is_requested(settings[i].name, call->words, call->word_count))
			continue;
		resp_write_bulk(call->out, settings[i].name);
		resp_write_bulk(call->out, settings[i].value);
	}
}

void resp_run_config(const struct resp_call *call)
{
	static const struct resp_subcommand table[] = {
	    {SLICE("GET"), 3, RESP_ARGS_ANY, "parameter [parameter ...]", config_get},
	};

	RESP_RUN_SUBCOMMAND(table);
}

static void acl_whoami(const struct resp_call *call)
{
	if (call->user.data)
		resp_write_bulk(call->out, call->user);
	else
		resp_write_error(call->out, "NOAUTH", SLICE("Authentication required."));
}

void resp_run_acl(const struct resp_call *call)
{
	static const struct resp_subcommand table[] = {
	    {SLICE("WHOAMI"), 2, 2, "", acl_whoami},
	};

	RESP_RUN_SUBCOMMAND(table);
}
