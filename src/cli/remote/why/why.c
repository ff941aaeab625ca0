/*
 * why.c: the command `weir why`: lists the denials that a server has kept, in memory or in files,
 * of a key or of all, as a table or as the JSON of the server.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/error.h"
#include "base/number.h"
#include "base/os/os.h"
#include "base/time/timestamp.h"
#include "cli/command.h"
#include "cli/remote/call.h"
#include "cli/remote/why/denial_files.h"
#include "cli/remote/digest.h"
#include "cli/remote/json_members.h"
#include "cli/remote/why/no_denial.h"
#include "cli/remote/table.h"
#include "client/http_client.h"
#include "rules/model.h"
#include "rules/rate.h"

#define DIGEST_LEN 16

enum { ID, LIMIT, RULE, SINCE, UNTIL, PATH, JSON, REMOTE };

static const struct flag flags[] = {
    [ID] = {"id", "ID", "only the denial of this id, as its answer or the log shows it", 0, NULL},
    [LIMIT] = {"limit", "NAME", "only denials by this limit", 0, NULL},
    [RULE] = {"rule", "NAME", "only denials by this rule", 0, NULL},
    [SINCE] = {"since", "TIME", "only denials since then: a span such as 1h, a date, or a time", 0,
               NULL},
    [UNTIL] = {"until", "TIME", "only denials until then", 0, NULL},
    [PATH] = {"file", "PATH", "search the file of denials and its older ones, PATH.1 and so on", 0,
              NULL},
    [JSON] = {"json", NULL, "print JSON, as the server's", 0, NULL},
    SERVER_FLAGS(SERVER_HTTP),
};

struct why {
	struct denial_filters filters;
	const char *path; /* of a file of denials, or NULL */
	bool is_json;
	struct server_flags server;
};

static void add_parameter(struct buffer *path, const char *name, const char *value)
{
	if (!value)
		return;
	buffer_printf(path, "&%s=", name);
	http_client_add_encoded(path, slice_of(value));
}

/*
 * Appends when a request that was denied at `time` may be repeated. `time` is cut to whole seconds,
 * so a second is added: the result may be late, but not early.
 */
static void add_retry_time(struct table *table, struct slice time, uint64_t retry_after_ms)
{
	struct buffer text = {0};
	uint64_t denied_ns, retry_ns;

	if (retry_after_ms > 0 && timestamp_parse(time, &denied_ns)) {
		retry_ns = sat_u64((u128)denied_ns + (u128)retry_after_ms * NS_PER_MS + NS_PER_S);
		if (retry_ns <= TIMESTAMP_MAX_NS)
			timestamp_add_date(&text, retry_ns);
	}
	table_add(table, text.len > 0 ? (struct slice){text.data, text.len} : SLICE("-"));
	buffer_free(&text);
}

/* Appends attributes as NAME=VALUE, separated by blanks. */
static void add_attributes(struct table *table, struct slice object)
{
	struct json json = json_of(object);
	struct slice name, value;
	struct buffer text = {0};

	if (json_open(&json, '{'))
		while (json_more(&json, '}') && json_name(&json, &name) && json_text(&json, &value)) {
			buffer_add(&text, " ", text.len > 0);
			buffer_add_slice(&text, name);
			buffer_add(&text, "=", 1);
			value.len = json_unescape(value, (char *)value.data);
			buffer_add_slice(&text, value);
		}
	table->text.failed |= text.failed;
	table_add(table, (struct slice){text.data, text.len});
	buffer_free(&text);
}

static void add_or_dash(struct table *table, struct slice text)
{
	table_add(table, text.len > 0 ? text : SLICE("-"));
}

/* Appends a row, with the key of the denial if they may have several. */
static void add_denial(struct table *table, struct slice denial, bool has_key_column)
{
	enum { OF_ID, TIME, OF_RULE, OF_LIMIT, OF_KEY, REASON, RETRY, SHADOW, ATTRIBUTES, COUNT };
	struct json_member members[] = {
	    {"id", {0}},     {"time", {0}},           {"rule", {0}},   {"limit", {0}},     {"key", {0}},
	    {"reason", {0}}, {"retry_after_ms", {0}}, {"shadow", {0}}, {"attributes", {0}}};
	struct slice time, rule;

	json_members_read(denial, members, COUNT);
	time = json_value_text(members[TIME].value);
	rule = json_value_text(members[OF_RULE].value);
	table_add(table, time);
	if (json_value_is_true(members[SHADOW].value))
		table_printf(table, "%.*s (shadow)", (int)u64_min(rule.len, 200), rule.data);
	else
		add_or_dash(table, rule);
	add_or_dash(table, json_value_text(members[OF_LIMIT].value));
	if (has_key_column)
		add_or_dash(table, json_value_text(members[OF_KEY].value));
	table_add(table, json_value_text(members[REASON].value));
	add_retry_time(table, time, json_value_u64(members[RETRY].value));
	table_add(table, json_value_text(members[OF_ID].value));
	add_attributes(table, members[ATTRIBUTES].value);
}

/* Whether the body is a list of objects; counts them. */
static bool is_list_of_objects(struct slice body, size_t *count)
{
	struct json list;
	struct slice denial;

	*count = 0;
	if (!json_is_valid(body) || !json_list_open(&list, body))
		return false;
	while (json_list_next(&list, &denial)) {
		if (!json_members_read(denial, NULL, 0))
			return false;
		++*count;
	}
	return true;
}

/* Prints a table of the list. */
static void print_table(struct slice body, bool has_key_column)
{
	static const char *const titles[] = {"TIME",   "RULE",     "LIMIT", "KEY",
	                                     "REASON", "RETRY AT", "ID",    "ATTRIBUTES"};
	const size_t key_column = 3, count = sizeof titles / sizeof *titles;
	struct table table = {.columns = has_key_column ? count : count - 1};
	struct buffer text = {0};
	struct json list;
	struct slice denial;

	for (size_t i = 0; i < count; i++)
		if (i != key_column || has_key_column)
			table_add(&table, slice_of(titles[i]));
	json_list_open(&list, body);
	for (size_t n = 0; n < DENIALS_MAX && json_list_next(&list, &denial); n++)
		add_denial(&table, denial, has_key_column);
	table_write(&table, &text);
	if (text.failed)
		command_fail("why", "out of memory");
	else
		fwrite(text.data, 1, text.len, stdout);
	table_free(&table);
	buffer_free(&text);
}

/* Whether the text is a digest of 16 hexadecimal digits in quotes. */
static bool is_quoted_digest(struct slice text)
{
	return slice_skip(&text, SLICE("\"")) && text.len == DIGEST_LEN + 1 &&
	       hex_is_valid((struct slice){text.data, DIGEST_LEN}, DIGEST_LEN);
}

/*
 * Whether a denial has another key than KEY, and its name rather than a digest. KEY may be a part of
 * that key, an address in its network, or the value of an attribute. `weir reset` needs the key.
 */
static bool has_other_key(struct slice body, const char *key)
{
	struct buffer quoted = {0};
	struct json list;
	struct slice denial;
	bool found = false;

	buffer_add_json_string(&quoted, slice_of(key));
	json_list_open(&list, body);
	while (!found && json_list_next(&list, &denial)) {
		struct json_member member = {"key", {0}};
		struct slice value;

		json_members_read(denial, &member, 1);
		value = member.value;
		found = value.len > 2 && !is_quoted_digest(value) &&
		        !slice_equal(value, (struct slice){quoted.data, quoted.len});
	}
	buffer_free(&quoted);
	return found;
}

static void print_list(const struct why *why, struct slice body, size_t count)
{
	if (why->is_json)
		json_print(stdout, body);
	else if (count > 0)
		print_table(body, !why->filters.key || has_other_key(body, why->filters.key));
}

/* Prints the list of the server. Returns the exit status. */
static int print_denials(const struct why *why, struct slice body)
{
	struct weir_error error;
	size_t count;

	if (!is_list_of_objects(body, &count)) {
		call_misunderstood(&why->server, &error);
		return command_fail("why", "%s", error.message);
	}
	print_list(why, body, count);
	if (count == 0)
		return no_denial_report(&why->filters, &why->server, why->is_json);
	if (count >= DENIALS_MAX || (why->filters.since && !why->is_json))
		no_denial_report_missing(&why->filters, &why->server, count >= DENIALS_MAX);
	return 0;
}

/* Asks the server. Returns the exit status. */
static int list_denials(const struct why *why)
{
	struct buffer path = {0};
	struct call call = {.method = "GET"};
	struct http_reply reply = {0};
	struct weir_error error;
	int status;

	buffer_printf(&path, "/v1/denials?n=%d", DENIALS_MAX);
	add_parameter(&path, "id", why->filters.id);
	add_parameter(&path, "key", why->filters.key);
	add_parameter(&path, "limit", why->filters.limit);
	add_parameter(&path, "rule", why->filters.rule);
	add_parameter(&path, "since", why->filters.since);
	add_parameter(&path, "until", why->filters.until);
	buffer_add(&path, "", 1);
	if (path.failed)
		return command_fail("why", "out of memory");
	call.path = path.data;
	status = call_server(&why->server, &call, &reply, &error) == CALL_DONE
	             ? print_denials(why, call_body(&reply))
	             : call_fail("why", &reply, &error);
	http_reply_free(&reply);
	buffer_free(&path);
	return status;
}

/* Reads a date such as 2026-01-31: the beginning of that day in the time zone of this machine. */
static bool read_date(const char *text, uint64_t *out_ns)
{
	struct tm day = {.tm_isdst = -1};
	const char *end = strptime(text, "%Y-%m-%d", &day);
	int day_of_month = day.tm_mday;
	time_t begin;

	if (!end || *end)
		return false;
	begin = mktime(&day);
	if (begin < 0 || (uint64_t)begin > TIMESTAMP_MAX_NS / NS_PER_S || day.tm_mday != day_of_month)
		return false; /* such as a 30 February */
	*out_ns = (uint64_t)begin * NS_PER_S;
	return true;
}

/* Replaces a date in *text by a time, which `time` holds. Returns false, and reports it, if it is
 * neither. */
static bool check_time(const char *flag, const char **text, struct buffer *time)
{
	uint64_t time_ns;

	if (!*text || since_parse(slice_of(*text), 0, &time_ns))
		return true;
	if (!read_date(*text, &time_ns)) {
		command_fail("why",
		             "%s: expected a span such as 1h, a date such as 2026-01-31, or a "
		             "time such as 2026-01-31T10:00:00Z, found '%.80s'",
		             flag, *text);
		return false;
	}
	timestamp_add_date(time, time_ns);
	buffer_add(time, "", 1);
	if (time->failed) {
		command_fail("why", "out of memory");
		return false;
	}
	*text = time->data;
	return true;
}

/* Says how much of the files is listed. Returns the exit status. */
static int report_extent(const struct why *why, const struct denial_files *files)
{
	unsigned long long found = files->found, skipped = files->skipped, count = files->read_count;
	struct buffer text = {0};

	if (found == 0) {
		no_denial_add_filters(&text, &why->filters);
		buffer_add_text(&text, "; ");
	}
	buffer_printf(&text, "%.200s has %llu denial%s", why->path, count, count == 1 ? "" : "s");
	buffer_add_text(&text, count > 0 ? ", the oldest of " : "");
	if (count > 0)
		timestamp_add_date(&text, files->oldest_ns);
	if (skipped > 0)
		buffer_printf(&text, ", and %llu line%s", skipped,
		              skipped == 1 ? " that is none" : "s that are none");
	buffer_add(&text, "", 1);
	if (found > DENIALS_MAX)
		command_fail("why", "only the newest %d of %llu are listed: see --since and --until; %s",
		             DENIALS_MAX, found, text.failed ? "" : text.data);
	else if (!text.failed && (found == 0 || skipped > 0) && !why->is_json)
		command_fail("why", "%s", text.data);
	buffer_free(&text);
	return found > 0 ? 0 : 1;
}

/* Reads a time that check_time has admitted. */
static uint64_t read_time(const char *text)
{
	uint64_t time_ns = 0;

	if (text)
		since_parse(slice_of(text), os_wall_ns(), &time_ns);
	return time_ns;
}

/*
 * Appends the digest of KEY, or KEY if it is a digest. Only a server with the secret of the files
 * can make a digest. Returns the exit status.
 */
static int find_digest(struct why *why, struct buffer *digest)
{
	struct slice key = slice_of(why->filters.key);
	char small_letters[DIGEST_LEN];
	struct weir_error error;
	int status;

	if (hex_is_valid(key, DIGEST_LEN)) {
		hex_lower(key, small_letters);
		buffer_add(digest, small_letters, DIGEST_LEN);
		return 0;
	}
	status = server_flags_open(&why->server, SERVER_HTTP, &error) == WEIR_OK
	             ? digest_ask("why", &why->server, why->filters.key, digest)
	             : command_fail("why", "%s", error.message);
	server_flags_close(&why->server);
	if (status != 0)
		command_fail("why",
		             "only the server that wrote the files knows the digest of KEY in them: name "
		             "it by --server, or search without KEY, by --rule, --since and --until");
	return status;
}

/* Lists the denials in files. Returns the exit status. */
static int list_files(struct why *why)
{
	const struct denial_filters *wanted = &why->filters;
	struct denial_filter filter = {.count_max = DENIALS_MAX,
	                               .id = wanted->id ? slice_of(wanted->id) : SLICE(""),
	                               .key = wanted->key ? slice_of(wanted->key) : SLICE(""),
	                               .limit = rules_denied_name(slice_of(wanted->limit ?: "")),
	                               .rule = wanted->rule ? slice_of(wanted->rule) : SLICE(""),
	                               .since_ns = read_time(wanted->since),
	                               .until_ns = read_time(wanted->until)};
	struct buffer digest = {0}, escaped = {0};
	struct denial_files files = {0};
	struct weir_error error;
	int status = 0;

	if (wanted->key)
		status = find_digest(why, &digest);
	buffer_add_json(&escaped, filter.key);
	filter.key_digests = (struct slice){digest.data, digest.len};
	filter.escaped_key = (struct slice){escaped.data, escaped.len};
	if (status == 0 && denial_files_list(why->path, &filter, &files, &error) != WEIR_OK)
		status = command_fail("why", "%s", error.message);
	if (status == 0) {
		print_list(why, (struct slice){files.json.data, files.json.len}, files.found);
		status = report_extent(why, &files);
	}
	buffer_free(&files.json);
	buffer_free(&escaped);
	buffer_free(&digest);
	return status;
}

/* Lists the denials of the server, or of files. Returns the exit status. */
static int list_chosen(struct why *why)
{
	struct weir_error error;
	int status;

	if (why->path)
		return list_files(why);
	status = server_flags_open(&why->server, SERVER_HTTP, &error) == WEIR_OK
	             ? list_denials(why)
	             : command_fail("why", "%s", error.message);
	server_flags_close(&why->server);
	return status;
}

static int run_why(int argc, char **argv)
{
	struct why why = {0};
	struct buffer since = {0}, until = {0};
	struct arguments arguments;
	int flag, status;

	arguments_begin(&arguments, &command_why, argc, argv);
	while ((flag = arguments_next(&arguments)) >= 0) {
		if (flag == ID)
			why.filters.id = arguments.value;
		else if (flag == LIMIT)
			why.filters.limit = arguments.value;
		else if (flag == RULE)
			why.filters.rule = arguments.value;
		else if (flag == SINCE)
			why.filters.since = arguments.value;
		else if (flag == UNTIL)
			why.filters.until = arguments.value;
		else if (flag == PATH)
			why.path = arguments.value;
		else if (flag == JSON)
			why.is_json = true;
		else
			server_flags_set(&why.server, flag - REMOTE, arguments.value);
	}
	if (argc - optind > 1)
		return command_fail("why", "expected one KEY at most, found %d arguments", argc - optind);
	why.filters.key = argv[optind]; /* NULL behind the last argument */
	if (why.filters.key && !*why.filters.key)
		return command_fail("why", "expected KEY, found an empty one");
	status = check_time("--since", &why.filters.since, &since) &&
	                 check_time("--until", &why.filters.until, &until)
	             ? list_chosen(&why)
	             : EXIT_USAGE;
	buffer_free(&since);
	buffer_free(&until);
	return status;
}

const struct command command_why = {
    .name = "why",
    .summary =
        "List the kept denials, newest first: of a key, by its name or digest, or of all keys.",
    .uses = {"[KEY] [--file PATH] [--id ID] [--limit NAME] [--rule NAME] [--since TIME] "
             "[--until TIME] [--json] " SERVER_USE},
    .note =
        "Without KEY, the last denials are listed with their keys, at most 1,000. A denial is\n"
        "found by its key, by each value of which the key is made, and by each value in the last\n"
        "column. `denials: { attributes: [ip] }` in the server's configuration adds the address\n"
        "of each denied request there. Without it, find denials by a limit without a key, or by\n"
        "a rule with another key, such as a header, by --limit or --rule. Write -- before a KEY\n"
        "that begins with -. With `denials: { headers: yes }` a denied answer over HTTP has its\n"
        "id in x-weir-decision. Memory keeps the last denials only. With a `file` for denials,\n"
        "--file lists those of it and its older files, at most 1,000; only the digest of KEY,\n"
        "unless KEY is a digest, is then asked of the server. --since and --until take a span\n"
        "such as 1h, a time such as 2026-01-31T10:00:00Z, Unix seconds, or a date such as\n"
        "2026-01-31: the beginning of that day in the time zone of this machine. Times are shown\n"
        "in UTC.",
    .examples = {"weir why 203.0.113.9 --since 1h",
                 "weir why 203.0.113.9 --file denials.jsonl --since 2d",
                 "weir why --id 9fa7418724dded0b --json"},
    .exits = "0 if there are any, 1 if there is none, 2 on an error",
    COMMAND_FLAGS(flags),
    .variables = {CREDENTIALS_VARIABLES},
    .run = run_why,
};
