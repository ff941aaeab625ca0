/*
 * status.c: the command `weir status`: prints what a running server runs, or, without the right to
 * see that, whether it is ready.
 */
#include "base/error.h"
#include "base/number.h"
#include "base/time/time_span.h"
#include "cli/command.h"
#include "cli/remote/call.h"
#include "cli/remote/json_members.h"
#include "cli/remote/status/key_count.h"
#include "cli/remote/table.h"

#define NOT_READY  503 /* the status of /readyz */
#define NOT_FOUND  404 /* an earlier version, without /v1/status */
#define ITEM_MAX   20  /* of a list, such as open breakers */

enum { JSON, REMOTE };

static const struct flag flags[] = {
    [JSON] = {"json", NULL, "print the server's JSON", 0, NULL},
    SERVER_FLAGS(SERVER_HTTP),
};

enum member {
	VERSION,
	RUNNING,
	STARTED,
	READY,
	LISTENERS,
	CONFIGURATION,
	STORES,
	LIMITS,
	RULES,
	KEYS,
	KEYS_SAMPLE_WEIGHT,
	CAPACITY,
	CONNECTIONS,
	WAITING,
	MEMORY,
	OPEN_BREAKERS,
	RECOVERING,
	SWITCHED,
	DENIALS,
	MEMBER_COUNT
};

static const struct json_member names[MEMBER_COUNT] = {
    [VERSION] = {"version", {0}},
    [RUNNING] = {"uptime_s", {0}},
    [STARTED] = {"started", {0}},
    [READY] = {"ready", {0}},
    [LISTENERS] = {"listeners", {0}},
    [CONFIGURATION] = {"configuration", {0}},
    [STORES] = {"stores", {0}},
    [LIMITS] = {"limits", {0}},
    [RULES] = {"rules", {0}},
    [KEYS] = {"keys", {0}},
    [KEYS_SAMPLE_WEIGHT] = {"keys_sample_weight", {0}},
    [CAPACITY] = {"capacity", {0}},
    [CONNECTIONS] = {"connections", {0}},
    [WAITING] = {"waiting", {0}},
    [MEMORY] = {"memory_bytes", {0}},
    [OPEN_BREAKERS] = {"open_breakers", {0}},
    [RECOVERING] = {"recovering_breakers", {0}},
    [SWITCHED] = {"switched", {0}},
    [DENIALS] = {"denials", {0}},
};

/* Appends the text of a value, which json_value_text changes. */
static void append_value(struct buffer *out, struct slice value)
{
	buffer_add_slice(out, json_value_text(value));
}

/* These append an item of a list, such as a listener. */
static void add_text(struct buffer *out, struct slice item)
{
	append_value(out, item);
}

static void add_listener(struct buffer *out, struct slice item)
{
	struct json_member members[] = {{"protocol", {0}}, {"address", {0}}, {"tls", {0}}};

	json_members_read(item, members, 3);
	append_value(out, members[0].value);
	buffer_add(out, " ", 1);
	append_value(out, members[1].value);
	if (json_value_is_true(members[2].value))
		buffer_add_text(out, " (tls)");
}

static void add_store_state(struct buffer *out, struct slice item)
{
	struct json_member members[] = {{"kind", {0}}, {"address", {0}}, {"reachable", {0}}};
	struct slice address;

	json_members_read(item, members, 3);
	append_value(out, members[0].value);
	address = json_value_text(members[1].value);
	buffer_add(out, " ", address.len > 0);
	buffer_add_slice(out, address);
	if (!json_value_is_true(members[2].value))
		buffer_add_text(out, " NOT REACHABLE");
}

/* With the phase, which an open breaker's item has not. */
static void add_breaker(struct buffer *out, struct slice item)
{
	struct json_member members[] = {{"limit", {0}}, {"key", {0}}, {"phase", {0}}};

	json_members_read(item, members, 3);
	append_value(out, members[0].value);
	buffer_add(out, " ", 1);
	buffer_add_slice(out, json_value_key(members[1].value));
	buffer_add_text(out, members[2].value.data ? ", " : "");
	append_value(out, members[2].value);
}

/* Appends `before` and the text of a value, or nothing if there is no such member. */
static void append_member(struct buffer *out, const char *before, struct slice value)
{
	if (!value.data)
		return;
	buffer_add_text(out, before);
	append_value(out, value);
}

/* A change by an operator: of the share that a limit denies, or of the phase of a key's breaker. */
static void add_switched(struct buffer *out, struct slice item)
{
	enum { LIMIT, DENY, KEY, STATE, BY, AT, UNTIL, COUNT };
	struct json_member members[] = {{"limit", {0}}, {"deny", {0}}, {"key", {0}},  {"state", {0}},
	                                {"by", {0}},    {"at", {0}},   {"until", {0}}};

	json_members_read(item, members, COUNT);
	append_member(out, "", members[LIMIT].value);
	if (members[DENY].value.data) {
		buffer_add_text(out, " denies ");
		buffer_add_slice(out, members[DENY].value);
	}
	if (members[KEY].value.data) {
		buffer_add(out, " ", 1);
		buffer_add_slice(out, json_value_key(members[KEY].value));
	}
	append_member(out, " forced ", members[STATE].value);
	append_member(out, " by ", members[BY].value);
	append_member(out, " at ", members[AT].value);
	append_member(out, " until ", members[UNTIL].value);
}

/* Adds rows for a list: the label, and each item in a line of its own. */
static void add_list(struct table *table, const char *label, struct slice value,
                     void (*add_item)(struct buffer *out, struct slice item))
{
	struct json list;
	struct slice item;
	size_t n = 0;

	if (json_list_open(&list, value))
		while (json_list_next(&list, &item)) {
			struct buffer text = {0};

			if (n++ >= ITEM_MAX)
				continue;
			add_item(&text, item);
			table->text.failed |= text.failed;
			table_add(table, slice_of(n == 1 ? label : ""));
			table_add(table, (struct slice){text.data, text.len});
			buffer_free(&text);
		}
	if (n == 0) {
		table_add(table, slice_of(label));
		table_add(table, SLICE("none"));
	}
	if (n > ITEM_MAX) {
		table_add(table, SLICE(""));
		table_printf(table, "and %zu more", n - ITEM_MAX);
	}
}

static void add_configuration(struct table *table, struct slice value)
{
	enum { FILES, READ, ERROR, COUNT };
	struct json_member members[] = {{"files", {0}}, {"read", {0}}, {"error", {0}}};
	struct slice error;

	json_members_read(value, members, COUNT);
	add_list(table, "files", members[FILES].value, add_text);
	table_add(table, SLICE("read"));
	table_add(table, json_value_text(members[READ].value));
	error = json_value_text(members[ERROR].value);
	if (error.len == 0)
		return;
	table_add(table, SLICE("LAST RELOAD FAILED"));
	table_add(table, error);
}

static unsigned long long number_of(const struct json_member *members, enum member member)
{
	return json_value_u64(members[member].value);
}

/* Adds for how long the server has run, in its two largest units. */
static void add_running_time(struct table *table, struct json_member *members)
{
	struct buffer text = {0};
	struct slice started = json_value_text(members[STARTED].value);
	int len = started.len < TABLE_CELL_MAX ? (int)started.len : TABLE_CELL_MAX;

	table_add(table, SLICE("running"));
	time_span_add(&text, number_of(members, RUNNING));
	table_printf(table, "%.*s, since %.*s", (int)text.len, text.data, len, started.data);
	table->text.failed |= text.failed;
	buffer_free(&text);
}

static void add_usage(struct table *table, const struct json_member *members)
{
	struct json_member denials[] = {{"kept", {0}}, {"left_out", {0}}};
	struct key_count count = {
	    .keys = members[KEYS].value,
	    .sample_weight = members[KEYS_SAMPLE_WEIGHT].value,
	    .capacity = members[CAPACITY].value,
	};
	char keys[KEY_COUNT_TEXT_MAX], memory[SIZE_TEXT_MAX];

	table_add(table, SLICE("limits"));
	table_printf(table, "%llu, in %llu rules", number_of(members, LIMITS),
	             number_of(members, RULES));
	table_add(table, SLICE("keys"));
	table_add(table, key_count_text(&count, keys) ? slice_of(keys) : SLICE("at Redis"));
	table_add(table, SLICE("connections"));
	table_printf(table, "%llu, %llu requests wait", number_of(members, CONNECTIONS),
	             number_of(members, WAITING));
	if (members[MEMORY].value.data) { /* an earlier version does not say it */
		format_size(memory, number_of(members, MEMORY), false);
		table_add(table, SLICE("memory"));
		table_add(table, slice_of(memory));
	}
	json_members_read(members[DENIALS].value, denials, 2);
	table_add(table, SLICE("denials"));
	table_printf(table, "%llu kept, %llu left out",
	             (unsigned long long)json_value_u64(denials[0].value),
	             (unsigned long long)json_value_u64(denials[1].value));
}

/* Prints the status as rows of a name and a value. */
static void print_rows(struct json_member *members)
{
	struct table table = {.columns = 2};
	struct buffer text = {0};

	table_add(&table, SLICE("weir"));
	table_add(&table, json_value_text(members[VERSION].value));
	table_add(&table, SLICE("state"));
	table_add(&table,
	          json_value_is_true(members[READY].value) ? SLICE("ready") : SLICE("NOT READY"));
	add_running_time(&table, members);
	add_configuration(&table, members[CONFIGURATION].value);
	add_list(&table, "listeners", members[LISTENERS].value, add_listener);
	add_list(&table, "stores", members[STORES].value, add_store_state);
	add_usage(&table, members);
	add_list(&table, "open breakers", members[OPEN_BREAKERS].value, add_breaker);
	if (members[RECOVERING].value.data)
		add_list(&table, "recovering", members[RECOVERING].value, add_breaker);
	if (members[SWITCHED].value.data)
		add_list(&table, "switched", members[SWITCHED].value, add_switched);
	table_write(&table, &text);
	if (text.failed)
		command_fail("status", "out of memory");
	else
		fwrite(text.data, 1, text.len, stdout);
	table_free(&table);
	buffer_free(&text);
}

/* Prints the answer of /v1/status. Returns the exit status. */
static int print_status(const struct server_flags *server, struct slice body, bool is_json)
{
	struct json_member members[MEMBER_COUNT];
	struct weir_error error;

	memcpy(members, names, sizeof members);
	if (!json_members_read(body, members, MEMBER_COUNT) || !members[READY].value.data) {
		call_misunderstood(server, &error);
		return command_fail("status", "%s", error.message);
	}
	if (is_json)
		json_print(stdout, body);
	else
		print_rows(members);
	return json_value_is_true(members[READY].value) ? 0 : 1;
}

/*
 * Prints whether the server is ready, by /readyz. Returns the exit status. An error with the status
 * `reported` was printed already.
 */
static int print_readiness(const struct server_flags *server, bool is_json, int reported)
{
	const struct call call = {.method = "GET", .path = "/readyz"};
	struct http_reply reply = {0};
	struct weir_error error;
	enum call_result result = call_server(server, &call, &reply, &error);
	bool is_ready = result == CALL_DONE;
	int status = is_ready ? 0 : 1;

	if (!is_ready && result != CALL_BROKEN && reply.status == reported)
		status = EXIT_USAGE;
	else if (!is_ready && (result == CALL_BROKEN || reply.status != NOT_READY))
		status = call_fail("status", &reply, &error);
	else if (is_json)
		printf("{\"ready\":%s}\n", is_ready ? "true" : "false");
	else
		printf("state  %s\n", is_ready ? "ready" : "NOT READY");
	http_reply_free(&reply);
	return status;
}

/* Returns the exit status. */
static int ask_status(const struct server_flags *server, bool is_json)
{
	const struct call call = {.method = "GET", .path = "/v1/status"};
	struct http_reply reply = {0};
	struct weir_error error;
	enum call_result result = call_server(server, &call, &reply, &error);
	int status;

	if (result == CALL_DONE) {
		status = print_status(server, call_body(&reply), is_json);
	} else {
		status = call_fail("status", &reply, &error);
		if (result == CALL_REFUSED || (result == CALL_FAILED && reply.status == NOT_FOUND))
			status = print_readiness(server, is_json, reply.status);
	}
	http_reply_free(&reply);
	return status;
}

static int run_status(int argc, char **argv)
{
	struct server_flags server = {0};
	struct arguments arguments;
	struct weir_error error;
	bool is_json = false;
	int flag, status;

	arguments_begin(&arguments, &command_status, argc, argv);
	while ((flag = arguments_next(&arguments)) >= 0) {
		if (flag == JSON)
			is_json = true;
		else
			server_flags_set(&server, flag - REMOTE, arguments.value);
	}
	if (optind < argc)
		return arguments_refuse(&command_status, argv[optind]);
	status = server_flags_open(&server, SERVER_HTTP, &error) == WEIR_OK
	             ? ask_status(&server, is_json)
	             : command_fail("status", "%s", error.message);
	server_flags_close(&server);
	return status;
}

const struct command command_status = {
    .name = "status",
    .summary =
        "Show what a server runs: version, files, listeners, stores, open breakers, and what "
        "operators have switched.",
    .uses = {"[--json] " SERVER_USE},
    .examples = {"weir status", "weir status --json --server unix:/run/weir/http.sock"},
    .exits = "0 if the server is ready, 1 if it is not, 2 on an error",
    COMMAND_FLAGS(flags),
    .variables = {CREDENTIALS_VARIABLES},
    .run = run_status,
};
