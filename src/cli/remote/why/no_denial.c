/*
 * no_denial.c: says what it means that `weir why` finds no denial. The name of a limit or rule may
 * be misspelled, or the server may have left out the denial or replaced it by newer ones; neither
 * means that the key was not denied.
 */
#include "cli/remote/why/no_denial.h"

#include <string.h>

#include "base/number.h"
#include "base/os/os.h"
#include "base/text/misspelling.h"
#include "base/time/timestamp.h"
#include "cli/command.h"
#include "cli/remote/call.h"
#include "cli/remote/json_members.h"
#include "rules/model.h"
#include "rules/rate.h"

#define ID_DIGITS 16

/* A name that is looked up among those of a server. */
struct lookup {
	struct slice wanted;
	bool is_known;
	struct buffer similar; /* a name of the server that may be meant, with a NUL, or empty */
};

/* Compares the name of an object of the server. */
static void compare_name(struct lookup *lookup, struct slice object)
{
	struct json_member member = {"name", {0}};
	struct slice name;

	if (!json_members_read(object, &member, 1))
		return;
	name = json_value_text(member.value);
	lookup->is_known |= slice_equal(name, lookup->wanted);
	if (lookup->similar.len == 0 && is_misspelling(lookup->wanted, name)) {
		buffer_add_slice(&lookup->similar, name);
		buffer_add(&lookup->similar, "", 1);
	}
}

static void compare_limits(struct lookup *lookup, struct slice list)
{
	struct json json;
	struct slice limit;

	if (json_list_open(&json, list))
		while (json_list_next(&json, &limit))
			compare_name(lookup, limit);
}

/* /dump/policy has a line for each rule, also for rules without limits. */
static void compare_rules(struct lookup *lookup, struct slice lines)
{
	while (lines.len > 0) {
		const char *end = memchr(lines.data, '\n', lines.len);
		size_t len = end ? (size_t)(end - lines.data) : lines.len;

		compare_name(lookup, (struct slice){lines.data, len});
		len += end != NULL;
		lines.data += len;
		lines.len -= len;
	}
}

/*
 * Reports a name that the server does not have; `kind` is what it should name. Returns false
 * without a report if the server has it, or does not answer.
 */
static bool report_unknown(const char *kind, const char *name, const struct server_flags *server,
                           const struct call *call,
                           void (*compare)(struct lookup *lookup, struct slice body))
{
	struct lookup lookup = {.wanted = slice_of(name)};
	struct http_reply reply = {0};
	struct weir_error error;
	bool is_unknown = false;

	if (call_server(server, call, &reply, &error) == CALL_DONE) {
		compare(&lookup, call_body(&reply));
		is_unknown = !lookup.is_known;
	}
	if (is_unknown && lookup.similar.len > 0 && !lookup.similar.failed)
		command_fail("why", "expected the name of a %s, found '%s': did you mean '%s'?", kind, name,
		             lookup.similar.data);
	else if (is_unknown)
		command_fail("why", "expected the name of a %s, found '%s'", kind, name);
	buffer_free(&lookup.similar);
	http_reply_free(&reply);
	return is_unknown;
}

static bool report_unknown_limit(const char *name, const struct server_flags *server)
{
	const struct call call = {.method = "GET", .path = "/v1/limits"};

	return !rules_reserved_name(slice_of(name)) &&
	       report_unknown("limit", name, server, &call, compare_limits);
}

static bool report_unknown_rule(const char *name, const struct server_flags *server)
{
	const struct call call = {.method = "GET", .path = "/dump/policy"};

	return report_unknown("rule", name, server, &call, compare_rules);
}

/*
 * Appends how many denials the server keeps, since when, and how many it has left out. Returns when
 * the oldest was if earlier ones may have been dropped for it, otherwise 0.
 */
static uint64_t add_extent(struct buffer *text, const struct server_flags *server)
{
	enum { KEPT, LEFT_OUT, OLDEST, KEEP, COUNT };
	const struct call call = {.method = "GET", .path = "/v1/status"};
	struct json_member outer = {"denials", {0}};
	struct json_member members[] = {
	    {"kept", {0}}, {"left_out", {0}}, {"oldest", {0}}, {"keep", {0}}};
	struct http_reply reply = {0};
	struct weir_error error;
	unsigned long long kept, left_out;
	uint64_t oldest_ns = 0;

	if (call_server(server, &call, &reply, &error) == CALL_DONE &&
	    json_members_read(call_body(&reply), &outer, 1) &&
	    json_members_read(outer.value, members, COUNT)) {
		struct slice oldest = json_value_text(members[OLDEST].value);

		kept = json_value_u64(members[KEPT].value);
		left_out = json_value_u64(members[LEFT_OUT].value);
		if (kept < json_value_u64(members[KEEP].value) || !timestamp_parse(oldest, &oldest_ns))
			oldest_ns = 0;
		buffer_printf(text, "; the server keeps %llu denial%s", kept, kept == 1 ? "" : "s");
		buffer_add_text(text, oldest.len > 0 ? ", the oldest of " : "");
		buffer_add_slice(text, oldest);
		if (left_out > 0)
			buffer_printf(text, ", and has left out %llu", left_out);
	}
	http_reply_free(&reply);
	return oldest_ns;
}

static void add_filter(struct buffer *text, const char *before, const char *value,
                       const char *after)
{
	if (value)
		buffer_printf(text, "%s%s%s", before, value, after);
}

void no_denial_add_filters(struct buffer *text, const struct denial_filters *filters)
{
	buffer_add_text(text, "no denial");
	add_filter(text, " of '", filters->key, "'");
	add_filter(text, " with the id '", filters->id, "'");
	add_filter(text, " by the limit '", filters->limit, "'");
	add_filter(text, " by the rule '", filters->rule, "'");
	buffer_add_text(text, " is kept");
	add_filter(text, " since ", filters->since, "");
	add_filter(text, " until ", filters->until, "");
}

/* Ids and digests of keys look alike. */
static bool looks_like_id(const char *key)
{
	return hex_is_valid(slice_of(key), ID_DIGITS);
}

int no_denial_report(const struct denial_filters *filters, const struct server_flags *server,
                     bool is_quiet)
{
	struct buffer text = {0};

	if ((filters->limit && report_unknown_limit(filters->limit, server)) ||
	    (filters->rule && report_unknown_rule(filters->rule, server)))
		return EXIT_USAGE;
	if (is_quiet)
		return 1;
	no_denial_add_filters(&text, filters);
	if (!filters->id && filters->key && looks_like_id(filters->key))
		buffer_add_text(&text, "; if that is the id of a denial, use --id");
	add_extent(&text, server);
	buffer_add(&text, "", 1);
	command_fail("why", "%s", text.failed ? "no denial is kept" : text.data);
	buffer_free(&text);
	return 1;
}

void no_denial_report_missing(const struct denial_filters *filters,
                              const struct server_flags *server, bool is_cut)
{
	struct buffer text = {0};
	uint64_t since_ns = UINT64_MAX, oldest_ns = add_extent(&text, server);

	if (filters->since && !since_parse(slice_of(filters->since), os_wall_ns(), &since_ns))
		since_ns = UINT64_MAX;
	buffer_add(&text, "", 1);
	if (is_cut)
		command_fail("why", "only the newest %d are listed: see --since, --until and --rule%s",
		             DENIALS_MAX, text.failed ? "" : text.data);
	else if (since_ns / NS_PER_S < oldest_ns / NS_PER_S && !text.failed)
		command_fail("why", "older denials may be in its files only, see --file%s", text.data);
	buffer_free(&text);
}
