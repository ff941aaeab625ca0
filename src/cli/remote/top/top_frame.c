/*
 * top_frame.c: makes a frame of `weir top` from three answers of a server: its status, the last
 * seconds of its limits, and the keys that are denied most.
 */
#include "cli/remote/top/top_frame.h"

#include <stdio.h>

#include "base/error.h"
#include "base/number.h"
#include "cli/remote/call.h"
#include "cli/remote/json_members.h"
#include "cli/remote/status/key_count.h"
#include "cli/remote/table.h"

#define LIMITS_MAX   20 /* rows */
#define KEYS_MAX     10 /* rows; /v1/top is asked for as many */
#define BREAKERS_MAX 5
#define STORES_MAX   5

enum { STATUS, STATS, TOP, ANSWERS };

static const char *const paths[ANSWERS] = {
    [STATUS] = "/v1/status",
    [STATS] = "/v1/stats?since=10s",
    [TOP] = "/v1/top?n=10",
};

static const char *const names[ANSWERS] = {"status", "stats", "top"};

/* The lists of a status that have lines of their own. */
struct status_lists {
	struct slice stores, breakers, recovering;
};

static void add_first_line(struct table *table, struct slice status, struct status_lists *lists)
{
	enum {
		VERSION,
		READY,
		KEYS,
		WEIGHT,
		CAPACITY,
		CONNECTIONS,
		WAITING,
		MEMORY,
		STORES,
		BREAKERS,
		RECOVERING,
		COUNT
	};
	struct json_member members[] = {{"version", {0}},
	                                {"ready", {0}},
	                                {"keys", {0}},
	                                {"keys_sample_weight", {0}},
	                                {"capacity", {0}},
	                                {"connections", {0}},
	                                {"waiting", {0}},
	                                {"memory_bytes", {0}},
	                                {"stores", {0}},
	                                {"open_breakers", {0}},
	                                {"recovering_breakers", {0}}};
	struct key_count count;
	struct slice version;
	char keys[KEY_COUNT_TEXT_MAX], memory[SIZE_TEXT_MAX] = "";
	bool is_counted;

	json_members_read(status, members, COUNT);
	lists->stores = members[STORES].value;
	lists->breakers = members[BREAKERS].value;
	lists->recovering = members[RECOVERING].value;
	count = (struct key_count){members[KEYS].value, members[WEIGHT].value, members[CAPACITY].value};
	is_counted = key_count_text(&count, keys);
	version = json_value_text(members[VERSION].value);
	if (members[MEMORY].value.data) /* an earlier version does not say it */
		format_size(memory, json_value_u64(members[MEMORY].value), false);
	table_printf(table, "weir %.*s, %s: %s%s, %s%s%llu connections, %llu requests wait",
	             (int)u64_min(version.len, 40), version.data,
	             json_value_is_true(members[READY].value) ? "ready" : "NOT READY",
	             is_counted ? keys : "keys at Redis", is_counted ? " keys" : "", memory,
	             *memory ? ", " : "",
	             (unsigned long long)json_value_u64(members[CONNECTIONS].value),
	             (unsigned long long)json_value_u64(members[WAITING].value));
}

/*
 * Adds a line for each of the stores that are reachable, or that are not, while fewer than
 * STORES_MAX are shown. The server's own table has one only if it is not reachable. Returns how
 * many there are.
 */
static size_t add_stores_in_state(struct table *table, struct slice stores, bool are_reachable,
                                  size_t shown)
{
	struct json list;
	struct slice item;
	size_t n = 0;

	if (!json_list_open(&list, stores))
		return 0;
	while (json_list_next(&list, &item)) {
		struct json_member members[] = {{"kind", {0}}, {"address", {0}}, {"reachable", {0}}};
		struct slice kind, address;

		json_members_read(item, members, 3);
		if (json_value_is_true(members[2].value) != are_reachable)
			continue;
		kind = json_value_text(members[0].value);
		if ((are_reachable && !slice_equal(kind, SLICE("redis"))) || shown + n++ >= STORES_MAX)
			continue;
		address = json_value_text(members[1].value);
		table_printf(table, "store %.*s %.*s %s", (int)u64_min(kind.len, 20), kind.data,
		             (int)u64_min(address.len, 200), address.data,
		             are_reachable ? "reachable" : "NOT REACHABLE");
	}
	return n;
}

static void add_stores(struct table *table, struct slice stores)
{
	size_t n = add_stores_in_state(table, stores, false, 0);

	n += add_stores_in_state(table, stores, true, n);
	if (n > STORES_MAX)
		table_printf(table, "and %zu more", n - STORES_MAX);
}

/* Adds a line for each of the first breakers, with the phase if they have one. */
static void add_breakers(struct table *table, const char *title, struct slice breakers)
{
	struct json list;
	struct slice item;
	size_t n = 0;

	if (!json_list_open(&list, breakers))
		return;
	while (json_list_next(&list, &item)) {
		struct json_member members[] = {{"limit", {0}}, {"key", {0}}, {"phase", {0}}};
		struct slice limit, key, phase;

		if (n++ >= BREAKERS_MAX)
			continue;
		json_members_read(item, members, 3);
		limit = json_value_text(members[0].value);
		key = json_value_key(members[1].value);
		phase = json_value_text(members[2].value);
		table_printf(table, "%s breakers: %.*s %.*s%s%.*s", title, (int)u64_min(limit.len, 100),
		             limit.data, (int)u64_min(key.len, 100), key.data, phase.len > 0 ? ", " : "",
		             (int)u64_min(phase.len, 20), phase.len > 0 ? phase.data : "");
	}
	if (n > BREAKERS_MAX)
		table_printf(table, "and %zu more", n - BREAKERS_MAX);
}

/* The sum of a list of numbers; *count becomes their number. */
static uint64_t sum_of(struct slice value, size_t *count)
{
	struct json list;
	struct slice item;
	uint64_t sum = 0;

	*count = 0;
	if (json_list_open(&list, value))
		while (json_list_next(&list, &item)) {
			sum = sat_add(sum, json_value_u64(item));
			++*count;
		}
	return sum;
}

/* Whether a limit of /v1/stats has any request in the seconds of the frame. */
static bool has_traffic(struct slice limit)
{
	struct json_member members[] = {{"allowed", {0}}, {"denied", {0}}};
	size_t seconds;

	json_members_read(limit, members, 2);
	return sum_of(members[0].value, &seconds) > 0 || sum_of(members[1].value, &seconds) > 0;
}

/* Adds the row of a limit: its name, and how many requests a second it has allowed and denied. */
static void add_limit_row(struct table *table, struct slice limit, const char *name)
{
	enum { NAME, ALLOWED, DENIED, COUNT };
	struct json_member members[] = {{"limit", {0}}, {"allowed", {0}}, {"denied", {0}}};
	size_t seconds, denied_seconds;
	uint64_t allowed, denied;

	json_members_read(limit, members, COUNT);
	allowed = sum_of(members[ALLOWED].value, &seconds);
	denied = sum_of(members[DENIED].value, &denied_seconds);
	if (name)
		table_add(table, slice_of(name));
	else
		table_add(table, json_value_text(members[NAME].value));
	table_printf(table, "%.1f", seconds > 0 ? (double)allowed / (double)seconds : 0.0);
	table_printf(table, "%.1f", denied_seconds > 0 ? (double)denied / (double)denied_seconds : 0.0);
	if (allowed + denied > 0)
		table_printf(table, "%.1f%%", 100.0 * (double)denied / ((double)allowed + (double)denied));
	else
		table_add(table, SLICE("-"));
}

static void add_limits(struct table *table, struct slice stats)
{
	struct json_member members[] = {{"limits", {0}}, {"others", {0}}};
	struct json list;
	struct slice item;

	table_add(table, SLICE("LIMIT"));
	table_add(table, SLICE("ALLOWED/S"));
	table_add(table, SLICE("DENIED/S"));
	table_add(table, SLICE("DENIED"));
	json_members_read(stats, members, 2);
	if (json_list_open(&list, members[0].value))
		for (size_t n = 0; n < LIMITS_MAX && json_list_next(&list, &item); n++)
			add_limit_row(table, item, NULL);
	if (members[1].value.data && has_traffic(members[1].value))
		add_limit_row(table, members[1].value, "(others)");
}

/*
 * Asks for the state of the listed keys, in their order. Returns the list of answers, or no data if
 * there are no keys or no answers: peeks are for users who may ask.
 */
static struct slice ask_states(const struct server_flags *server, struct slice top,
                               struct http_reply *reply)
{
	struct call call = {.method = "POST", .path = "/v1/batch"};
	struct buffer body = {0};
	struct weir_error error;
	struct json list;
	struct slice item, states = {NULL, 0};

	buffer_add(&body, "[", 1);
	if (json_list_open(&list, top))
		for (size_t n = 0; n < KEYS_MAX && json_list_next(&list, &item); n++) {
			struct json_member members[] = {{"key", {0}}, {"limit", {0}}};

			json_members_read(item, members, 2);
			buffer_add_text(&body,
			                n > 0 ? ",{\"op\":\"peek\",\"key\":" : "{\"op\":\"peek\",\"key\":");
			buffer_add_slice(&body, members[0].value);
			buffer_add_text(&body, ",\"limit\":");
			buffer_add_slice(&body, members[1].value);
			buffer_add(&body, "}", 1);
		}
	buffer_add(&body, "]", 1);
	call.body = (struct slice){body.data, body.len};
	if (!body.failed && body.len > 2 && call_server(server, &call, reply, &error) == CALL_DONE &&
	    json_is_valid(call_body(reply)))
		states = call_body(reply);
	buffer_free(&body);
	return states;
}

/* Adds what a key has left, such as the free places of an adaptive limit. */
static void add_state(struct table *table, struct slice state)
{
	struct json_member members[] = {{"quota", {0}}, {"remaining", {0}}};

	if (json_members_read(state, members, 2) && json_value_u64(members[0].value) > 0)
		table_printf(table, "%llu of %llu", (unsigned long long)json_value_u64(members[1].value),
		             (unsigned long long)json_value_u64(members[0].value));
	else
		table_add(table, SLICE("-"));
}

/* Adds the keys that are denied most, and what they have left if the table has a column for it. */
static void add_keys(struct table *table, struct slice top, struct slice states)
{
	struct json list, state_list;
	struct slice item, state;
	bool has_states = table->columns == 4 && json_list_open(&state_list, states);

	table_add(table, SLICE("KEY DENIED MOST"));
	table_add(table, SLICE("LIMIT"));
	table_add(table, SLICE("DENIED"));
	if (table->columns == 4)
		table_add(table, SLICE("LEFT"));
	if (!json_list_open(&list, top))
		return;
	for (size_t n = 0; n < KEYS_MAX && json_list_next(&list, &item); n++) {
		struct json_member members[] = {{"key", {0}}, {"limit", {0}}, {"denied", {0}}};

		json_members_read(item, members, 3);
		table_add(table, json_value_key(members[0].value));
		table_add(table, json_value_text(members[1].value));
		table_printf(table, "%llu", (unsigned long long)json_value_u64(members[2].value));
		has_states = has_states && json_list_next(&state_list, &state);
		if (table->columns == 4)
			add_state(table, has_states ? state : SLICE("null"));
	}
}

static void add_text_frame(struct buffer *out, const struct server_flags *server,
                           struct slice answers[ANSWERS])
{
	struct table lines = {.columns = 1}, limits = {.columns = 4}, keys = {.columns = 3};
	struct http_reply reply = {0};
	struct slice states = ask_states(server, answers[TOP], &reply);
	struct status_lists lists;

	keys.columns += states.data != NULL;
	limits.is_number[1] = limits.is_number[2] = limits.is_number[3] = keys.is_number[2] = true;
	keys.is_number[3] = true;
	add_first_line(&lines, answers[STATUS], &lists);
	add_stores(&lines, lists.stores);
	add_breakers(&lines, "open", lists.breakers);
	add_breakers(&lines, "recovering", lists.recovering);
	add_limits(&limits, answers[STATS]);
	add_keys(&keys, answers[TOP], states);
	table_write(&lines, out);
	buffer_add(out, "\n", 1);
	table_write(&limits, out);
	buffer_add(out, "\n", 1);
	table_write(&keys, out);
	table_free(&lines);
	table_free(&limits);
	table_free(&keys);
	http_reply_free(&reply);
}

static void add_json_frame(struct buffer *out, struct slice answers[ANSWERS])
{
	for (size_t i = 0; i < ANSWERS; i++) {
		buffer_printf(out, "%s\"%s\":", i > 0 ? "," : "{", names[i]);
		buffer_add_slice(out, answers[i]);
	}
	buffer_add(out, "}", 1);
}

/* Whether the answers have the forms of the three paths: an object, an object and a list. */
static bool are_valid(struct slice answers[ANSWERS])
{
	struct json list;

	return json_members_read(answers[STATUS], NULL, 0) &&
	       json_members_read(answers[STATS], NULL, 0) && json_is_valid(answers[TOP]) &&
	       json_list_open(&list, answers[TOP]);
}

bool top_frame_add(struct buffer *out, const struct server_flags *server, bool is_json,
                   struct weir_error *error)
{
	struct http_reply replies[ANSWERS] = {0};
	struct slice answers[ANSWERS];
	bool is_complete = true;

	for (size_t i = 0; i < ANSWERS && is_complete; i++) {
		const struct call call = {.method = "GET", .path = paths[i]};

		is_complete = call_server(server, &call, &replies[i], error) == CALL_DONE;
		answers[i] = call_body(&replies[i]);
	}
	if (is_complete && !are_valid(answers)) {
		call_misunderstood(server, error);
		is_complete = false;
	}
	if (is_complete && is_json)
		add_json_frame(out, answers);
	else if (is_complete)
		add_text_frame(out, server, answers);
	for (size_t i = 0; i < ANSWERS; i++)
		http_reply_free(&replies[i]);
	if (is_complete && out->failed)
		error_set(error, WEIR_ENOMEM, "out of memory");
	return is_complete && !out->failed;
}
