#include "proto/resp_session.h"

#include <ctype.h>
#include <stdarg.h>
#include <stdio.h>

#include "base/number.h"

/* Whose commands are spoken; clients choose their ways by it. */
#define REDIS_VERSION "7.2.0"
/* Connections have no numbers here, but clients want one that is not 0. */
#define CLIENT_ID 1

static void write_ok(struct buffer *out)
{
	buffer_add(out, "+OK\r\n", 5);
}

static void write_error(struct buffer *out, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

static void write_error(struct buffer *out, const char *format, ...)
{
	char text[200];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	resp_write_error(out, "ERR", slice_of(text));
}

/* The head of `n` pairs: a map, or in RESP2 an array of twice as many. */
static void write_map(const struct resp_session *session, struct buffer *out, uint64_t n)
{
	resp_write_head(out, session->protocol == 3 ? '%' : '*', session->protocol == 3 ? n : 2 * n);
}

static void write_null(const struct resp_session *session, struct buffer *out)
{
	buffer_add_text(out, session->protocol == 3 ? "_\r\n" : "$-1\r\n");
}

/* Text for people: RESP3 has a type for it. */
static void write_verbatim(const struct resp_session *session, struct buffer *out,
                           struct slice text)
{
	if (session->protocol == 2) {
		resp_write_bulk(out, text);
		return;
	}
	resp_write_head(out, '=', text.len + 4);
	buffer_add_text(out, "txt:");
	buffer_add_slice(out, text);
	buffer_add(out, "\r\n", 2);
}

struct subcommand {
	struct slice name;
	uint8_t min, max; /* words, both names among them */
	void (*run)(struct resp_session *session, const struct slice *args, size_t n,
	            struct buffer *out);
};

static void run_subcommand(const struct subcommand *table, size_t table_len,
                           struct resp_session *session, const struct slice *args, size_t n,
                           struct buffer *out)
{
	for (size_t i = 0; i < table_len; i++) {
		if (!slice_equal_nocase(args[1], table[i].name))
			continue;
		if (n < table[i].min || n > table[i].max)
			write_error(out, "wrong number of arguments for '%.*s|%.*s' command",
			            FILL_QUOTE(args[0]), FILL_QUOTE(args[1]));
		else
			table[i].run(session, args, n, out);
		return;
	}
	write_error(out, "unknown subcommand '%.*s' of '%.*s'", FILL_QUOTE(args[1]),
	            FILL_QUOTE(args[0]));
}

#define RUN_SUBCOMMAND(table) run_subcommand(table, sizeof(table) / sizeof *(table), session, args, n, out)

void resp_run_ping(struct resp_session *session, const struct slice *args, size_t n,
                   struct buffer *out)
{
	(void)session;
	if (n > 1)
		resp_write_bulk(out, args[1]);
	else
		buffer_add_text(out, "+PONG\r\n");
}

void resp_run_echo(struct resp_session *session, const struct slice *args, size_t n,
                   struct buffer *out)
{
	(void)session, (void)n;
	resp_write_bulk(out, args[1]);
}

void resp_run_quit(struct resp_session *session, const struct slice *args, size_t n,
                   struct buffer *out)
{
	(void)session, (void)args, (void)n;
	write_ok(out);
}

void resp_run_later(struct resp_session *session, const struct slice *args, size_t n,
                    struct buffer *out)
{
	(void)session, (void)n;
	write_error(out, "%.*s is not supported in this version", FILL_QUOTE(args[0]));
}

static bool set_name(struct resp_session *session, struct slice name, struct buffer *out)
{
	for (size_t i = 0; i < name.len; i++) {
		if (name.data[i] >= '!' && name.data[i] <= '~')
			continue;
		write_error(out, "Client names cannot contain spaces, newlines or special characters.");
		return false;
	}
	if (name.len > RESP_NAME_MAX) {
		write_error(out, "expected a client name of at most %d bytes, found %zu", RESP_NAME_MAX,
		            name.len);
		return false;
	}
	memcpy(session->name, name.data, name.len);
	session->name_len = name.len;
	return true;
}

/* There is one user, without a password: as in a Redis that was never given one. */
static bool check_user(struct slice user, struct buffer *out)
{
	if (slice_equal(user, SLICE("default")))
		return true;
	resp_write_error(out, "WRONGPASS",
	                 SLICE("invalid username-password pair or user is disabled."));
	return false;
}

void resp_run_auth(struct resp_session *session, const struct slice *args, size_t n,
                   struct buffer *out)
{
	(void)session;
	if (n == 2)
		write_error(out, "AUTH <password> called without any password configured for the default "
		                 "user. Are you sure your configuration is correct?");
	else if (check_user(args[1], out))
		write_ok(out);
}

static void write_greeting(const struct resp_session *session, struct buffer *out)
{
	write_map(session, out, 7);
	resp_write_bulk(out, SLICE("server"));
	resp_write_bulk(out, SLICE("weir"));
	resp_write_bulk(out, SLICE("version"));
	resp_write_bulk(out, SLICE(REDIS_VERSION));
	resp_write_bulk(out, SLICE("proto"));
	resp_write_integer(out, session->protocol);
	resp_write_bulk(out, SLICE("id"));
	resp_write_integer(out, CLIENT_ID);
	resp_write_bulk(out, SLICE("mode"));
	resp_write_bulk(out, SLICE("standalone"));
	resp_write_bulk(out, SLICE("role"));
	resp_write_bulk(out, SLICE("master"));
	resp_write_bulk(out, SLICE("modules"));
	resp_write_head(out, '*', 0);
}

/* HELLO [version [AUTH user password] [SETNAME name]]: all of it, or an error and nothing. */
void resp_run_hello(struct resp_session *session, const struct slice *args, size_t n,
                    struct buffer *out)
{
	uint64_t version = (uint64_t)session->protocol;
	const struct slice *name = NULL;

	if (n > 1 && !parse_u64(args[1], &version)) {
		write_error(out, "Protocol version is not an integer or out of range");
		return;
	}
	if (version != 2 && version != 3) {
		resp_write_error(out, "NOPROTO", SLICE("unsupported protocol version"));
		return;
	}
	for (size_t i = 2; i < n; i++) {
		if (slice_equal_nocase(args[i], SLICE("AUTH")) && i + 2 < n) {
			if (!check_user(args[i + 1], out))
				return;
			i += 2;
		} else if (slice_equal_nocase(args[i], SLICE("SETNAME")) && i + 1 < n) {
			name = &args[++i];
		} else {
			write_error(out, "Syntax error in HELLO option '%.*s'", FILL_QUOTE(args[i]));
			return;
		}
	}
	if (name && !set_name(session, *name, out))
		return;
	session->protocol = (int)version;
	write_greeting(session, out);
}

void resp_run_select(struct resp_session *session, const struct slice *args, size_t n,
                     struct buffer *out)
{
	int64_t index;

	(void)session, (void)n;
	if (!parse_i64(args[1], &index))
		write_error(out, "value is not an integer or out of range");
	else if (index != 0)
		write_error(out, "DB index is out of range");
	else
		write_ok(out);
}

void resp_run_reset(struct resp_session *session, const struct slice *args, size_t n,
                    struct buffer *out)
{
	(void)args, (void)n;
	session->protocol = 2;
	session->name_len = 0;
	buffer_add_text(out, "+RESET\r\n");
}

static void client_ok(struct resp_session *session, const struct slice *args, size_t n,
                      struct buffer *out)
{
	(void)session, (void)args, (void)n;
	write_ok(out);
}

static void client_setname(struct resp_session *session, const struct slice *args, size_t n,
                           struct buffer *out)
{
	(void)n;
	if (set_name(session, args[2], out))
		write_ok(out);
}

static void client_getname(struct resp_session *session, const struct slice *args, size_t n,
                           struct buffer *out)
{
	(void)args, (void)n;
	if (session->name_len > 0)
		resp_write_bulk(out, (struct slice){session->name, session->name_len});
	else
		write_null(session, out);
}

static void client_id(struct resp_session *session, const struct slice *args, size_t n,
                      struct buffer *out)
{
	(void)session, (void)args, (void)n;
	resp_write_integer(out, CLIENT_ID);
}

static void client_info(struct resp_session *session, const struct slice *args, size_t n,
                        struct buffer *out)
{
	char text[RESP_NAME_MAX + 64];
	int len = snprintf(text, sizeof text, "id=%d name=%.*s db=0 resp=%d\n", CLIENT_ID,
	                   (int)session->name_len, session->name, session->protocol);

	(void)args, (void)n;
	write_verbatim(session, out, (struct slice){text, (size_t)len});
}

/* A client that tracks believes its copies until told otherwise; nobody here would tell it. */
static void client_tracking(struct resp_session *session, const struct slice *args, size_t n,
                            struct buffer *out)
{
	(void)session, (void)n;
	if (slice_equal_nocase(args[2], SLICE("OFF")))
		write_ok(out);
	else
		write_error(out, "client tracking is not supported");
}

void resp_run_client(struct resp_session *session, const struct slice *args, size_t n,
                     struct buffer *out)
{
	static const struct subcommand table[] = {
	    {SLICE("SETINFO"), 4, 4, client_ok},
	    {SLICE("SETNAME"), 3, 3, client_setname},
	    {SLICE("GETNAME"), 2, 2, client_getname},
	    {SLICE("ID"), 2, 2, client_id},
	    {SLICE("INFO"), 2, 2, client_info},
	    {SLICE("LIST"), 2, RESP_ARGS_ANY, client_info},
	    {SLICE("TRACKING"), 3, RESP_ARGS_ANY, client_tracking},
	    {SLICE("NO-EVICT"), 3, 3, client_ok},
	    {SLICE("NO-TOUCH"), 3, 3, client_ok},
	    {SLICE("CAPA"), 3, RESP_ARGS_ANY, client_ok},
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

static void command_info(struct resp_session *session, const struct slice *args, size_t n,
                         struct buffer *out)
{
	size_t count;
	const struct resp_spec *specs = resp_specs(&count);

	if (n <= 2) {
		resp_write_head(out, '*', count);
		for (size_t i = 0; i < count; i++)
			write_spec(out, &specs[i]);
		return;
	}
	resp_write_head(out, '*', n - 2);
	for (size_t i = 2; i < n; i++) {
		const struct resp_spec *spec = resp_spec_find(args[i]);

		if (spec)
			write_spec(out, spec);
		else
			buffer_add_text(out, session->protocol == 3 ? "_\r\n" : "*-1\r\n");
	}
}

static void command_count(struct resp_session *session, const struct slice *args, size_t n,
                          struct buffer *out)
{
	size_t count;

	(void)session, (void)args, (void)n;
	resp_specs(&count);
	resp_write_integer(out, (int64_t)count);
}

static void command_list(struct resp_session *session, const struct slice *args, size_t n,
                         struct buffer *out)
{
	size_t count;
	const struct resp_spec *specs = resp_specs(&count);

	(void)session, (void)args, (void)n;
	resp_write_head(out, '*', count);
	for (size_t i = 0; i < count; i++)
		write_lower(out, specs[i].name);
}

/* Of no command: redis-cli then completes by the names that COMMAND gave. */
static void command_docs(struct resp_session *session, const struct slice *args, size_t n,
                         struct buffer *out)
{
	(void)args, (void)n;
	write_map(session, out, 0);
}

void resp_run_command(struct resp_session *session, const struct slice *args, size_t n,
                      struct buffer *out)
{
	static const struct subcommand table[] = {
	    {SLICE("INFO"), 2, RESP_ARGS_ANY, command_info},
	    {SLICE("COUNT"), 2, 2, command_count},
	    {SLICE("LIST"), 2, 2, command_list},
	    {SLICE("DOCS"), 2, RESP_ARGS_ANY, command_docs},
	};

	if (n == 1)
		command_info(session, args, n, out);
	else
		RUN_SUBCOMMAND(table);
}

void resp_run_info(struct resp_session *session, const struct slice *args, size_t n,
                   struct buffer *out)
{
	char text[256];
	int len = snprintf(text, sizeof text,
	                   "# Server\r\nredis_version:%s\r\nredis_mode:standalone\r\n"
	                   "weir_version:%s\r\narch_bits:%zu\r\n\r\n"
	                   "# Persistence\r\nloading:0\r\n\r\n"
	                   "# Replication\r\nrole:master\r\nconnected_slaves:0\r\n",
	                   REDIS_VERSION, weir_version(), 8 * sizeof(void *));

	(void)args, (void)n;
	write_verbatim(session, out, (struct slice){text, (size_t)len});
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

static void config_get(struct resp_session *session, const struct slice *args, size_t n,
                       struct buffer *out)
{
	uint64_t found = 0;

	for (size_t i = 0; i < SETTING_COUNT; i++)
		found += is_asked(settings[i].name, args, n);
	write_map(session, out, found);
	for (size_t i = 0; i < SETTING_COUNT; i++) {
		if (!is_asked(settings[i].name, args, n))
			continue;
		resp_write_bulk(out, settings[i].name);
		resp_write_bulk(out, settings[i].value);
	}
}

void resp_run_config(struct resp_session *session, const struct slice *args, size_t n,
                     struct buffer *out)
{
	static const struct subcommand table[] = {
	    {SLICE("GET"), 3, RESP_ARGS_ANY, config_get},
	};

	RUN_SUBCOMMAND(table);
}
