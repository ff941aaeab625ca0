/*
 * bench.c: the command `weir bench`: reads its flags, builds the request that it sends, runs the
 * load generator of src/load, and prints the report.
 */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/number.h"
#include "cli/bench_report.h"
#include "cli/command.h"
#include "cli/remote/server_flags.h"
#include "load/load.h"

#define EXIT_TROUBLE    2
#define DEFAULT_COMMAND "CL.THROTTLE key:{key} 15 1000 1"

/* The values of the flags. */
struct flag_values {
	struct load_options load;
	const char *protocol, *command, *limit, *path, *distribution;
	struct server_flags server;
	struct buffer login_command;
	uint64_t key_len, pid; /* 0 if not set */
	bool json;
};

/* These parse the value of a flag and write it to `out`, a member of struct flag_values. */
static bool parse_text(const char *text, void *out)
{
	memcpy(out, &text, sizeof text);
	return text[0] != '\0';
}

static bool parse_count(const char *text, void *out)
{
	return parse_u64(slice_of(text), out);
}

static bool parse_duration(const char *text, void *out)
{
	static const struct {
		const char *name;
		uint64_t ns;
	} units[] = {{"us", 1000},
	             {"ms", NS_PER_MS},
	             {"s", NS_PER_S},
	             {"m", 60 * NS_PER_S},
	             {"h", 3600 * NS_PER_S}};
	size_t digits = strspn(text, "0123456789");
	uint64_t *ns = out, count;

	if (!parse_u64((struct slice){text, digits}, &count))
		return false;
	for (size_t i = 0; i < sizeof units / sizeof *units; i++)
		if (strcmp(text + digits, units[i].name) == 0) {
			*ns = sat_u64((u128)count * units[i].ns);
			return true;
		}
	return false;
}

enum kind { TEXT, COUNT, TIME };

static const struct {
	bool (*parse)(const char *text, void *out);
	const char *expected;
} kinds[] = {
    [TEXT] = {parse_text, "a value"},
    [COUNT] = {parse_count, "a whole number"},
    [TIME] = {parse_duration, "a time such as 500ms, 10s or 1m"},
};

/* X(name, value, help; member, kind, min, max). The bounds of a time are in nanoseconds. */
#define FLAG_LIST(X)                                                                               \
	X("protocol", "NAME", "resp or http (resp; http with --path)", protocol, TEXT, 0, 0)           \
	X("command", "TEXT", "RESP command to send (\"CL.THROTTLE key:{key} 15 1000 1\")", command,    \
	  TEXT, 0, 0)                                                                                  \
	X("limit", "NAME", "limit to ask for, with key {key}", limit, TEXT, 0, 0)                      \
	X("path", "PATH", "path of an HTTP GET, such as /v1/acquire/NAME?key={key}", path, TEXT, 0, 0) \
	X("connections", "N", "connections (50)", load.connections, COUNT, 1, LOAD_CONNECTIONS_MAX)    \
	X("pipeline", "N", "requests sent at once on each connection (1)", load.pipeline, COUNT, 1,    \
	  LOAD_PIPELINE_MAX)                                                                           \
	X("threads", "N", "threads that send (1)", load.threads, COUNT, 1, LOAD_THREADS_MAX)           \
	X("requests", "N", "requests to send, instead of --duration", load.requests, COUNT, 1,         \
	  UINT64_MAX / 2)                                                                              \
	X("duration", "TIME", "how long to send (10s)", load.duration_ns, TIME, 1,                     \
	  LOAD_DURATION_MAX_NS)                                                                        \
	X("warmup", "TIME", "how long to send before measuring (1s; with --requests 0s)",              \
	  load.warmup_ns, TIME, 0, LOAD_DURATION_MAX_NS)                                               \
	X("timeout", "TIME", "end the run if the server is silent for this long (10s)",                \
	  load.timeout_ns, TIME, 1, LOAD_DURATION_MAX_NS)                                              \
	X("rate", "N", "send so many requests a second (as fast as answers come)", load.rate, COUNT,   \
	  1, LOAD_RATE_MAX)                                                                            \
	X("keys", "N", "different keys (1000000)", load.keys.count, COUNT, 1, KEYS_MAX)                \
	X("distribution", "NAME",                                                                      \
	  "how keys are chosen: uniform, zipf:S, sequential or single (uniform)", distribution, TEXT,  \
	  0, 0)                                                                                        \
	X("key-length", "N", "bytes of a key (as many as needed)", key_len, COUNT, 1, WEIR_KEY_MAX)    \
	X("seed", "N", "seed of the choice of keys (1)", load.seed, COUNT, 0, UINT64_MAX)              \
	X("pid", "PID", "the server's process on this machine, to show its CPU time", pid, COUNT, 1,   \
	  INT32_MAX)

/* How the value of each flag of FLAG_LIST is read. */
static const struct flag_input {
	size_t offset; /* of the member of struct flag_values */
	enum kind kind;
	uint64_t min, max;
} flag_inputs[] = {
#define INPUT(name, value, help, member, kind, min, max)                                           \
	{offsetof(struct flag_values, member), kind, min, max},
    FLAG_LIST(INPUT)
#undef INPUT
};

/* The flags after those of FLAG_LIST. */
enum { JSON = sizeof flag_inputs / sizeof *flag_inputs, REMOTE };

static const struct flag flags[] = {
#define FLAG(name, value, help, member, kind, min, max) {name, value, help, 0, NULL},
    FLAG_LIST(FLAG)
#undef FLAG
        [JSON] = {"json", NULL, "print one JSON object instead of text", 0, NULL},
    SERVER_FLAGS("127.0.0.1:6380; for HTTP port 8080"),
};

static int set_flag(struct flag_values *flag_values, int flag, const char *text,
                    struct weir_error *error)
{
	const struct flag_input *flag_input = &flag_inputs[flag];
	const char *name = flags[flag].name;
	void *out = (char *)flag_values + flag_input->offset;
	bool is_in_range = true;

	if (!kinds[flag_input->kind].parse(text, out))
		return error_set(error, WEIR_EINVAL, "--%s: expected %s, found '%.80s'", name,
		                 kinds[flag_input->kind].expected, text);
	if (flag_input->kind != TEXT)
		is_in_range = *(uint64_t *)out >= flag_input->min && *(uint64_t *)out <= flag_input->max;
	if (flag_input->kind == COUNT && !is_in_range)
		return error_set(error, WEIR_EINVAL, "--%s: expected %llu to %llu, found %.80s", name,
		                 (unsigned long long)flag_input->min, (unsigned long long)flag_input->max,
		                 text);
	if (flag_input->kind == TIME && !is_in_range)
		return error_set(error, WEIR_EINVAL,
		                 "--%s: expected a time %sof at most a day, found %.80s", name,
		                 flag_input->min > 0 ? "above zero and " : "", text);
	return WEIR_OK;
}

static int read_flags(struct flag_values *flag_values, int argc, char **argv,
                      struct weir_error *error)
{
	struct arguments arguments;
	int flag, status = WEIR_OK;

	arguments_begin(&arguments, &command_bench, argc, argv);
	while (status == WEIR_OK && (flag = arguments_next(&arguments)) >= 0) {
		if (flag >= REMOTE)
			server_flags_set(&flag_values->server, flag - REMOTE, arguments.value);
		else if (flag == JSON)
			flag_values->json = true;
		else
			status = set_flag(flag_values, flag, arguments.value, error);
	}
	if (status == WEIR_OK && optind < argc)
		exit(arguments_refuse(&command_bench, argv[optind]));
	return status;
}

/* Sets how long the test runs, and checks the number of connections. */
static int resolve_run(struct flag_values *flag_values, struct weir_error *error)
{
	struct load_options *load = &flag_values->load;

	if (load->requests > 0 && load->duration_ns > 0)
		return error_set(error, WEIR_EINVAL, "expected --requests or --duration, found both");
	if (load->duration_ns == 0) /* has no effect with --requests */
		load->duration_ns = 10 * NS_PER_S;
	if (load->warmup_ns == UINT64_MAX)
		load->warmup_ns = load->requests > 0 ? 0 : NS_PER_S;
	load->server_pid = (pid_t)flag_values->pid;
	if (load->connections < load->threads)
		return error_set(error, WEIR_EINVAL,
		                 "expected a connection for each of %zu threads, found %zu", load->threads,
		                 load->connections);
	return WEIR_OK;
}

/* Sets the distribution of keys. `digits` becomes the number of digits that keys need. */
static int resolve_keys(struct flag_values *flag_values, size_t *digits, struct weir_error *error)
{
	char text[20];
	int status = keys_parse_distribution(slice_of(flag_values->distribution),
	                                     &flag_values->load.keys, error);

	if (status != WEIR_OK)
		return status;
	*digits = (size_t)(format_u64(text, flag_values->load.keys.count - 1) - text);
	if (flag_values->key_len == 0)
		flag_values->key_len = *digits;
	if (flag_values->key_len < *digits)
		return error_set(error, WEIR_EINVAL,
		                 "expected --key-length of at least %zu for %llu keys, found %llu", *digits,
		                 (unsigned long long)flag_values->load.keys.count,
		                 (unsigned long long)flag_values->key_len);
	return WEIR_OK;
}

/* Reads the address, the login and the certificates. */
static int resolve_server(struct flag_values *flag_values, bool http, struct weir_error *error)
{
	struct server_flags *server = &flag_values->server;
	int status = server_flags_open(server, http ? SERVER_HTTP : SERVER_RESP, error);

	if (status == WEIR_OK && server->address.is_http && !http)
		return error_set(error, WEIR_EINVAL, "expected --protocol http with %.80s, found resp",
		                 server->text);
	flag_values->load.server = server->address.addresses[0];
	flag_values->load.tls = server->trust.dial;
	return status;
}

/* Checks that at most one flag says what to send, and chooses the protocol by it. */
static int resolve_protocol(struct flag_values *flag_values, struct weir_error *error)
{
	bool http;
	int requests_named;

	if (!flag_values->protocol)
		flag_values->protocol =
		    flag_values->path || server_flags_name_http(&flag_values->server) ? "http" : "resp";
	http = strcmp(flag_values->protocol, "http") == 0;
	if (!http && strcmp(flag_values->protocol, "resp") != 0)
		return error_set(error, WEIR_EINVAL, "--protocol: expected resp or http, found '%.80s'",
		                 flag_values->protocol);
	requests_named = !!flag_values->command + !!flag_values->limit + !!flag_values->path;
	if (requests_named > 1)
		return error_set(error, WEIR_EINVAL,
		                 "expected one of --command, --limit and --path, found several");
	if (http ? flag_values->command != NULL : flag_values->path != NULL)
		return error_set(error, WEIR_EINVAL, "expected --%s with --protocol %s, found --%s",
		                 http ? "path" : "command", flag_values->protocol,
		                 http ? "command" : "path");
	if (http && !flag_values->limit && !flag_values->path)
		return error_set(error, WEIR_EINVAL, "expected --limit or --path with --protocol http");
	return resolve_server(flag_values, http, error);
}

/*
 * Makes the HTTP header lines with host and login, or the RESP command that logs in. The login's
 * header depends on the path: /auth has one of its own.
 */
static bool add_header_and_login(struct flag_values *flag_values, bool http, const char *path,
                                 struct buffer *fields)
{
	if (http) {
		buffer_printf(fields, "Host: %s\r\n", flag_values->server.address.field);
		credentials_add_field(&flag_values->server.login, path, fields);
	} else {
		credentials_add_auth(&flag_values->server.login, &flag_values->login_command);
	}
	buffer_add(fields, "", 1);
	flag_values->load.login =
	    (struct slice){flag_values->login_command.data, flag_values->login_command.len};
	return !fields->failed && !flag_values->login_command.failed;
}

/* Builds the request that is sent, and chooses how its replies are read. */
static int resolve_request(struct flag_values *flag_values, size_t digits, struct template *request,
                           struct weir_error *error)
{
	bool http = strcmp(flag_values->protocol, "http") == 0;
	const char *without_limit = http                   ? flag_values->path
	                            : flag_values->command ? flag_values->command
	                                                   : DEFAULT_COMMAND;
	struct buffer text = {0}, fields = {0};
	int status;

	if (flag_values->limit)
		buffer_printf(&text, http ? "/v1/acquire/%s?key={key}" : "WEIR.ACQUIRE %s {key}",
		              flag_values->limit);
	else
		buffer_add_text(&text, without_limit);
	buffer_add(&text, "", 1);
	if (text.failed || !add_header_and_login(flag_values, http, text.data, &fields))
		status = error_set(error, WEIR_ENOMEM, "out of memory");
	else if (http)
		status =
		    template_http(request, text.data, fields.data, flag_values->key_len, digits, error);
	else
		status = template_resp(request, text.data, flag_values->key_len, digits, error);
	if (status == WEIR_OK) {
		const char *command = text.data + strspn(text.data, " \t");
		struct slice name = {command, strcspn(command, " \t")};

		flag_values->load.replies = http ? scan_http() : scan_resp(name);
		flag_values->load.request = request;
	}
	buffer_free(&text);
	buffer_wipe(&fields);
	return status;
}

/* Prints the first error reply of a run. Returns the exit status. */
static int fail_by_reply(const char *first_error)
{
	/* over HTTP the text is the first line of the reply */
	int status = strstr(first_error, "HTTP/1.1 401 ") ? 401 : 0;

	return command_fail("bench", "%s%s", first_error, credentials_remedy(first_error, status));
}

/* Runs the load and prints the result. Returns the exit status. */
static int load_and_report(const struct flag_values *flag_values)
{
	struct load_result *result = malloc(sizeof *result);
	const struct load_options *load = &flag_values->load;
	bench_report *report = flag_values->json ? bench_report_json : bench_report_text;
	struct weir_error error = {0};
	int status = EXIT_TROUBLE;

	if (!result)
		return command_fail("bench", "out of memory");
	if (load_run(load, result, &error) != WEIR_OK) {
		command_fail("bench", "%s%s", error.message, credentials_remedy(error.message, 0));
	} else {
		bool written =
		    report(stdout, load, flag_values->protocol, flag_values->distribution, result);

		fflush(stdout);
		if (!written)
			command_fail("bench", "can't write the result");
		else
			status = result->first_error[0] ? fail_by_reply(result->first_error) : 0;
	}
	free(result);
	return status;
}

static int run_bench(int argc, char **argv)
{
	struct flag_values flag_values = {
	    .load = {.keys.count = 1000000,
	             .seed = 1,
	             .warmup_ns = UINT64_MAX, /* not set */
	             .timeout_ns = 10 * NS_PER_S,
	             .connections = 50,
	             .pipeline = 1,
	             .threads = 1},
	    .distribution = "uniform",
	};
	struct template request = {0};
	struct weir_error error = {0};
	size_t digits;
	int status = read_flags(&flag_values, argc, argv, &error) ?: resolve_run(&flag_values, &error) ?:
	             resolve_keys(&flag_values, &digits, &error) ?: resolve_protocol(&flag_values, &error) ?:
	             resolve_request(&flag_values, digits, &request, &error);

	status = status == WEIR_OK ? load_and_report(&flag_values)
	                           : command_fail("bench", "%s", error.message);
	template_free(&request);
	buffer_wipe(&flag_values.login_command);
	server_flags_close(&flag_values.server);
	return status;
}

const struct command command_bench = {
    .name = "bench",
    .summary = "Load a server and measure its answers.",
    .uses = {"[--server ADDR] [--rate N] [--duration TIME] [FLAG]...", "--user NAME [FLAG]...",
             "--tls [--cacert FILE] [FLAG]..."},
    .examples = {"weir bench --duration 5s",
                 "weir bench --limit login --connections 10 --rate 1000",
                 "weir bench --protocol http --path '/v1/acquire/login?key={key}'"},
    .exits = "0, 2 if the load could not run as requested",
    COMMAND_FLAGS(flags),
    .variables = {CREDENTIALS_VARIABLES},
    .run = run_bench,
};
