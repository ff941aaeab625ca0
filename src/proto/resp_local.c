#include "proto/resp_session.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/number.h"

/* Whose commands are spoken; clients choose their ways by it. */
#define REDIS_VERSION "7.2.0"
/* Connections have no numbers here, but clients want one that is not 0. */
#define CLIENT_ID 1

static void write_ok(const struct resp_call *call)
{
	buffer_add(call->out, "+OK\r\n", 5);
}

static void write_error(const struct resp_call *call, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void write_error(const struct resp_call *call, const char *format, ...)
{
	char text[200];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	resp_write_error(call->out, "ERR", slice_of(text));
}

/* The head of `n` pairs: a map, or in RESP2 an array of twice as many. */
static void write_map(const struct resp_call *call, uint64_t n)
{
	bool map = call->session->protocol == 3;

	resp_write_head(call->out, map ? '%' : '*', map ? n : 2 * n);
}

static void write_null(const struct resp_call *call)
{
	buffer_add_text(call->out, call->session->protocol == 3 ? "_\r\n" : "$-1\r\n");
}

/* Text for people: RESP3 has a type for it. */
static void write_verbatim(const struct resp_call *call, struct slice text)
{
	if (call->session->protocol == 2) {
		resp_write_bulk(call->out, text);
		return;
	}
	resp_write_head(call->out, '=', text.len + 4);
	buffer_add_text(call->out, "txt:");
	buffer_add_slice(call->out, text);
	buffer_add(call->out, "\r\n", 2);
}

struct subcommand {
	struct slice name;
	uint8_t min, max; /* words, both names among them */
	void (*run)(const struct resp_call *call);
};

static void run_subcommand(const struct subcommand *table, size_t table_len,
                           const struct resp_call *call)
{
	for (size_t i = 0; i < table_len; i++) {
		if (!slice_equal_nocase(call->args[1], table[i].name))
			continue;
		if (call->count < table[i].min || call->count > table[i].max)
			write_error(call, "wrong number of arguments for '%.*s|%.*s' command",
			            FILL_QUOTE(call->args[0]), FILL_QUOTE(call->args[1]));
		else
			table[i].run(call);
		return;
	}
	write_error(call, "unknown subcommand '%.*s' of '%.*s'", FILL_QUOTE(call->args[1]),
	            FILL_QUOTE(call->args[0]));
}

#define RUN_SUBCOMMAND(table) run_subcommand(table, sizeof(table) / sizeof *(table), call)

void resp_run_ping(const struct resp_call *call)
{
	if (call->count > 1)
		resp_write_bulk(call->out, call->args[1]);
	else
		buffer_add_text(call->out, "+PONG\r\n");
}

void resp_run_echo(const struct resp_call *call)
{
	resp_write_bulk(call->out, call->args[1]);
}

void resp_run_quit(const struct resp_call *call)
{
	write_ok(call);
}

static bool set_name(const struct resp_call *call, struct slice name)
{
	for (size_t i = 0; i < name.len; i++) {
		if (name.data[i] >= '!' && name.data[i] <= '~')
			continue;
		write_error(call, "Client names cannot contain spaces, newlines or special characters.");
		return false;
	}
	if (name.len > RESP_NAME_MAX) {
		write_error(call, "expected a client name of at most %d bytes, found %zu", RESP_NAME_MAX,
		            name.len);
		return false;
	}
	memcpy(call->session->name, name.data, name.len);
	call->session->name_len = name.len;
	return true;
}

/* There is one user, without a password: as in a Redis that was never given one. */
static bool check_user(const struct resp_call *call, struct slice user)
{
	if (slice_equal(user, SLICE("default")))
		return true;
	resp_write_error(call->out, "WRONGPASS",
	                 SLICE("invalid username-password pair or user is disabled."));
	return false;
}

void resp_run_auth(const struct resp_call *call)
{
	if (call->count == 2)
		write_error(call, "AUTH <password> called without any password configured for the default "
		                  "user. Are you sure your configuration is correct?");
	else if (check_user(call, call->args[1]))
		write_ok(call);
}

static void write_greeting(const struct resp_call *call)
{
	write_map(call, 7);
	resp_write_bulk(call->out, SLICE("server"));
	resp_write_bulk(call->out, SLICE("weir"));
	resp_write_bulk(call->out, SLICE("version"));
	resp_write_bulk(call->out, SLICE(REDIS_VERSION));
	resp_write_bulk(call->out, SLICE("proto"));
	resp_write_integer(call->out, call->session->protocol);
	resp_write_bulk(call->out, SLICE("id"));
	resp_write_integer(call->out, CLIENT_ID);
	resp_write_bulk(call->out, SLICE("mode"));
	resp_write_bulk(call->out, SLICE("standalone"));
	resp_write_bulk(call->out, SLICE("role"));
	resp_write_bulk(call->out, SLICE("master"));
	resp_write_bulk(call->out, SLICE("modules"));
	resp_write_head(call->out, '*', 0);
}

/* HELLO [version [AUTH user password] [SETNAME name]]: all of it, or an error and nothing. */
void resp_run_hello(const struct resp_call *call)
{
	uint64_t version = (uint64_t)call->session->protocol;
	const struct slice *name = NULL;

	if (call->count > 1 && !parse_u64(call->args[1], &version)) {
		write_error(call, "Protocol version is not an integer or out of range");
		return;
	}
	if (version != 2 && version != 3) {
		resp_write_error(call->out, "NOPROTO", SLICE("unsupported protocol version"));
		return;
	}
	for (size_t i = 2; i < call->count; i++) {
		if (slice_equal_nocase(call->args[i], SLICE("AUTH")) && i + 2 < call->count) {
			if (!check_user(call, call->args[i + 1]))
				return;
			i += 2;
		} else if (slice_equal_nocase(call->args[i], SLICE("SETNAME")) && i + 1 < call->count) {
			name = &call->args[++i];
		} else {
			write_error(call, "Syntax error in HELLO option '%.*s'", FILL_QUOTE(call->args[i]));
			return;
		}
	}
	if (name && !set_name(call, *name))
		return;
	call->session->protocol = (int)version;
	write_greeting(call);
}

void resp_run_select(const struct resp_call *call)
{
	int64_t index;

	if (!parse_i64(call->args[1], &index))
		write_error(call, "value is not an integer or out of range");
	else if (index != 0)
		write_error(call, "DB index is out of range");
	else
		write_ok(call);
}

void resp_run_reset(const struct resp_call *call)
{
	call->session->protocol = 2;
	call->session->name_len = 0;
	buffer_add_text(call->out, "+RESET\r\n");
}

static void client_setname(const struct resp_call *call)
{
	if (set_name(call, call->args[2]))
		write_ok(call);
}

static void client_getname(const struct resp_call *call)
{
	if (call->session->name_len > 0)
		resp_write_bulk(call->out, (struct slice){call->session->name, call->session->name_len});
	else
		write_null(call);
}

static void client_id(const struct resp_call *call)
{
	resp_write_integer(call->out, CLIENT_ID);
}

static void client_info(const struct resp_call *call)
{
	char text[RESP_NAME_MAX + 64];
	int len = snprintf(text, sizeof text, "id=%d name=%.*s db=0 resp=%d\n", CLIENT_ID,
	                   (int)call->session->name_len, call->session->name, call->session->protocol);

	write_verbatim(call, (struct slice){text, (size_t)len});
}

/* A client that tracks believes its copies until told otherwise; nobody here would tell it. */
static void client_tracking(const struct resp_call *call)
{
	if (slice_equal_nocase(call->args[2], SLICE("OFF")))
		write_ok(call);
	else
		write_error(call, "client tracking is not supported");
}

void resp_run_client(const struct resp_call *call)
{
	static const struct subcommand table[] = {
	    {SLICE("SETINFO"), 4, 4, write_ok},
	    {SLICE("SETNAME"), 3, 3, client_setname},
	    {SLICE("GETNAME"), 2, 2, client_getname},
	    {SLICE("ID"), 2, 2, client_id},
	    {SLICE("INFO"), 2, 2, client_info},
	    {SLICE("LIST"), 2, RESP_ARGS_ANY, client_info},
	    {SLICE("TRACKING"), 3, RESP_ARGS_ANY, client_tracking},
	    {SLICE("NO-EVICT"), 3, 3, write_ok},
	    {SLICE("NO-TOUCH"), 3, 3, write_ok},
	    {SLICE("CAPA"), 3, RESP_ARGS_ANY, write_ok},
	};

	RUN_SUBCOMMAND(table);
}

static void write_lower(struct buffer *out, struct slice name)
{
	char *to;

	resp_write_head(out, '$', name.len);
	to = buffer_reserve(out, name.len);
	if (!to)
		return;
	for (size_t i = 0; i < name.len; i++)
		to[i] = (char)tolower((unsigned char)name.data[i]);
	out->len += name.len;
	buffer_add(out, "\r\n", 2);
}

/* Name, arity, flags, and where the keys are: first, last, step. */
static void write_spec(struct buffer *out, const struct resp_spec *spec)
{
	resp_write_head(out, '*', 6);
	write_lower(out, spec->name);
	resp_write_integer(out, spec->min == spec->max ? spec->min : -(int)spec->min);
	buffer_add_text(out, spec->key ? "*2\r\n+write\r\n+fast\r\n" : "*1\r\n+fast\r\n");
	resp_write_integer(out, spec->key);
	resp_write_integer(out, spec->key);
	resp_write_integer(out, spec->key != 0);
}

static void command_info(const struct resp_call *call)
{
	size_t count;
	const struct resp_spec *specs = resp_specs(&count);

	if (call->count <= 2) {
		resp_write_head(call->out, '*', count);
		for (size_t i = 0; i < count; i++)
			write_spec(call->out, &specs[i]);
		return;
	}
	resp_write_head(call->out, '*', call->count - 2);
	for (size_t i = 2; i < call->count; i++) {
		const struct resp_spec *spec = resp_spec_find(call->args[i]);

		if (spec)
			write_spec(call->out, spec);
		else
			buffer_add_text(call->out, call->session->protocol == 3 ? "_\r\n" : "*-1\r\n");
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

	resp_write_head(call->out, '*', count);
	for (size_t i = 0; i < count; i++)
		write_lower(call->out, specs[i].name);
}

/* Of no command: redis-cli then completes by the names that COMMAND gave. */
static void command_docs(const struct resp_call *call)
{
	write_map(call, 0);
}

void resp_run_command(const struct resp_call *call)
{
	static const struct subcommand table[] = {
	    {SLICE("INFO"), 2, RESP_ARGS_ANY, command_info},
	    {SLICE("COUNT"), 2, 2, command_count},
	    {SLICE("LIST"), 2, 2, command_list},
	    {SLICE("DOCS"), 2, RESP_ARGS_ANY, command_docs},
	};

	if (call->count == 1)
		command_info(call);
	else
		RUN_SUBCOMMAND(table);
}

void resp_run_info(const struct resp_call *call)
{
	char text[256];
	int len = snprintf(text, sizeof text,
	                   "# Server\r\nredis_version:%s\r\nredis_mode:standalone\r\n"
	                   "weir_version:%s\r\narch_bits:%zu\r\n\r\n"
	                   "# Persistence\r\nloading:0\r\n\r\n"
	                   "# Replication\r\nrole:master\r\nconnected_slaves:0\r\n",
	                   REDIS_VERSION, weir_version(), 8 * sizeof(void *));

	write_verbatim(call, (struct slice){text, (size_t)len});
}

/* What clients ask for to learn whom they talk to: redis-benchmark the first two. */
static const struct {
	struct slice name, value;
} settings[] = {
    {SLICE("save"), SLICE("")},
    {SLICE("appendonly"), SLICE("no")},
    {SLICE("databases"), SLICE("1")},
    {SLICE("maxmemory"), SLICE("0")},
};

#define SETTING_COUNT (sizeof settings / sizeof *settings)

static bool is_asked(struct slice name, const struct slice *args, size_t n)
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
		found += is_asked(settings[i].name, call->args, call->count);
	write_map(call, found);
	for (size_t i = 0; i < SETTING_COUNT; i++) {
		if (!is_asked(settings[i].name, call->args, call->count))
			continue;
		resp_write_bulk(call->out, settings[i].name);
		resp_write_bulk(call->out, settings[i].value);
	}
}

void resp_run_config(const struct resp_call *call)
{
	static const struct subcommand table[] = {
	    {SLICE("GET"), 3, RESP_ARGS_ANY, config_get},
	};

	RUN_SUBCOMMAND(table);
}
