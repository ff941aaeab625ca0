/* bench.c: the command `weir bench`: reads its flags and runs the load generator of src/load. */
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/number.h"
#include "cli/bench_report.h"
#include "cli/command.h"
#include "cli/credentials.h"
#include "cli/tls_flags.h"
#include "load/load.h"

#define EXIT_TROUBLE    2
#define DEFAULT_COMMAND "CL.THROTTLE key:{key} 15 1000 1"

/* The values of the flags. */
struct given {
	struct load_options load;
	const char *server, *protocol, *command, *limit, *path, *distribution;
	struct tls_flags tls;
	struct credentials login;
	struct buffer login_command;
	uint64_t key_len, pid;
	bool json;
};

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
	X("server", "ADDR", "address of the server (127.0.0.1:6380; for HTTP port 8080)", server,      \
	  TEXT, 0, 0)                                                                                  \
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
static const struct input {
	size_t at;
	enum kind kind;
	uint64_t min, max;
} inputs[] = {
#define INPUT(name, value, help, member, kind, min, max)                                           \
	{offsetof(struct given, member), kind, min, max},
    FLAG_LIST(INPUT)
#undef INPUT
};

/* The flags after those of FLAG_LIST. */
enum { JSON = sizeof inputs / sizeof *inputs, LOGIN, TRUST = LOGIN + CREDENTIALS_FLAG_COUNT };

static const struct flag flags[] = {
#define FLAG(name, value, help, member, kind, min, max) {name, value, help, 0, NULL},
    FLAG_LIST(FLAG)
#undef FLAG
        [JSON] = {"json", NULL, "print one JSON object instead of text", 0, NULL},
    CREDENTIALS_FLAGS,
    TLS_FLAGS,
};

static int set_flag(struct given *given, int flag, const char *text, struct weir_error *error)
{
	const struct input *input = &inputs[flag];
	const char *name = flags[flag].name;
	void *out = (char *)given + input->at;

	if (!kinds[input->kind].parse(text, out))
		return error_set(error, WEIR_EINVAL, "--%s: expected %s, found '%.80s'", name,
		                 kinds[input->kind].expected, text);
	if (input->kind == COUNT && (*(uint64_t *)out < input->min || *(uint64_t *)out > input->max))
		return error_set(error, WEIR_EINVAL, "--%s: expected %llu to %llu, found %.80s", name,
		                 (unsigned long long)input->min, (unsigned long long)input->max, text);
	if (input->kind == TIME && (*(uint64_t *)out < input->min || *(uint64_t *)out > input->max))
		return error_set(error, WEIR_EINVAL,
		                 "--%s: expected a time %sof at most a day, found %.80s", name,
		                 input->min > 0 ? "above zero and " : "", text);
	return WEIR_OK;
}

static int read_flags(struct given *given, int argc, char **argv, struct weir_error *error)
{
	struct arguments arguments;
	int flag, status = WEIR_OK;

	arguments_begin(&arguments, &command_bench, argc, argv);
	while (status == WEIR_OK && (flag = arguments_next(&arguments)) >= 0) {
		if (flag >= TRUST)
			tls_flags_set(&given->tls, flag - TRUST, arguments.value);
		else if (flag >= LOGIN)
			credentials_set(&given->login, flag - LOGIN, arguments.value);
		else if (flag == JSON)
			given->json = true;
		else
			status = set_flag(given, flag, arguments.value, error);
	}
	if (status == WEIR_OK && optind < argc)
		exit(arguments_refuse(&command_bench, argv[optind]));
	return status;
}

static int resolve_loop(struct given *given, struct weir_error *error)
{
	struct load_options *load = &given->load;

	if (load->requests > 0 && load->duration_ns > 0)
		return error_set(error, WEIR_EINVAL, "expected --requests or --duration, found both");
	if (load->duration_ns == 0)
		load->duration_ns = 10 * NS_PER_S;
	if (load->warmup_ns == UINT64_MAX)
		load->warmup_ns = load->requests > 0 ? 0 : NS_PER_S;
	load->server_pid = (pid_t)given->pid;
	if (load->connections < load->threads)
		return error_set(error, WEIR_EINVAL,
		                 "expected a connection for each of %zu threads, found %zu", load->threads,
		                 load->connections);
	return WEIR_OK;
}

static int resolve_keys(struct given *given, size_t *digits, struct weir_error *error)
{
	char text[20];
	int status = keys_parse_distribution(slice_of(given->distribution), &given->load.keys, error);

	if (status != WEIR_OK)
		return status;
	*digits = (size_t)(format_u64(text, given->load.keys.count - 1) - text);
	if (given->key_len == 0)
		given->key_len = *digits;
	if (given->key_len < *digits)
		return error_set(error, WEIR_EINVAL,
		                 "expected --key-length of at least %zu for %llu keys, found %llu", *digits,
		                 (unsigned long long)given->load.keys.count,
		                 (unsigned long long)given->key_len);
	return WEIR_OK;
}

/* Checks that at most one flag says what to send, and chooses the protocol by it. */
static int resolve_protocol(struct given *given, struct weir_error *error)
{
	bool http;

	if (!given->protocol)
		given->protocol = given->path ? "http" : "resp";
	http = strcmp(given->protocol, "http") == 0;
	if (!http && strcmp(given->protocol, "resp") != 0)
		return error_set(error, WEIR_EINVAL, "--protocol: expected resp or http, found '%.80s'",
		                 given->protocol);
	if (!!given->command + !!given->limit + !!given->path > 1)
		return error_set(error, WEIR_EINVAL,
		                 "expected one of --command, --limit and --path, found several");
	if (http ? given->command != NULL : given->path != NULL)
		return error_set(error, WEIR_EINVAL, "expected --%s with --protocol %s, found --%s",
		                 http ? "path" : "command", given->protocol, http ? "command" : "path");
	if (http && !given->limit && !given->path)
		return error_set(error, WEIR_EINVAL, "expected --limit or --path with --protocol http");
	if (!given->server)
		given->server = http ? "127.0.0.1:8080" : "127.0.0.1:6380";
	return net_address_parse(slice_of(given->server), &given->load.server, error);
}

/* Makes the HTTP header lines with host and login, or the RESP command that logs in. */
static bool add_fields(struct given *given, bool http, const char *path, struct buffer *fields)
{
	/* A Unix socket has no host name. */
	const char *host = net_address_is_unix(&given->load.server) ? "localhost" : given->server;

	buffer_printf(fields, "Host: %s\r\n", host);
	if (http)
		credentials_add_field(&given->login, path, fields);
	else
		credentials_add_auth(&given->login, &given->login_command);
	buffer_add(fields, "", 1);
	given->load.login = (struct slice){given->login_command.data, given->login_command.len};
	return !fields->failed && !given->login_command.failed;
}

static int resolve_request(struct given *given, size_t digits, struct template *request,
                           struct weir_error *error)
{
	bool http = strcmp(given->protocol, "http") == 0;
	const char *plain = http ? given->path : given->command ? given->command : DEFAULT_COMMAND;
	struct buffer text = {0}, fields = {0};
	int status;

	if (given->limit)
		buffer_printf(&text, http ? "/v1/acquire/%s?key={key}" : "WEIR.ACQUIRE %s {key}",
		              given->limit);
	else
		buffer_add_text(&text, plain);
	buffer_add(&text, "", 1);
	if (text.failed || !add_fields(given, http, text.data, &fields))
		status = error_set(error, WEIR_ENOMEM, "out of memory");
	else if (http)
		status = template_http(request, text.data, fields.data, given->key_len, digits, error);
	else
		status = template_resp(request, text.data, given->key_len, digits, error);
	if (status == WEIR_OK) {
		const char *word = text.data + strspn(text.data, " \t");

		given->load.replies =
		    http ? scan_http() : scan_resp((struct slice){word, strcspn(word, " \t")});
		given->load.request = request;
	}
	buffer_free(&text);
	buffer_wipe(&fields);
	return status;
}

static int resolve_tls(struct given *given, struct weir_error *error)
{
	int status = tls_flags_open(&given->tls, given->server, &given->load.server, error);

	given->load.tls = given->tls.dial;
	return status;
}

static int run(const struct given *given)
{
	struct load_result *result = malloc(sizeof *result);
	const struct load_options *load = &given->load;
	bench_report *report = given->json ? bench_report_json : bench_report_text;
	struct weir_error error = {0};
	int status = EXIT_TROUBLE;

	if (!result)
		return command_fail("bench", "out of memory");
	if (load_run(load, result, &error) != WEIR_OK) {
		command_fail("bench", "%s", error.message);
	} else {
		bool written = report(stdout, load, given->protocol, given->distribution, result);

		fflush(stdout);
		if (!written)
			command_fail("bench", "can't write the result");
		else
			status = result->first_error[0] ? command_fail("bench", "%s", result->first_error) : 0;
	}
	free(result);
	return status;
}

static int bench(int argc, char **argv)
{
	struct given given = {
	    .load = {.keys.count = 1000000,
	             .seed = 1,
	             .warmup_ns = UINT64_MAX,
	             .timeout_ns = 10 * NS_PER_S,
	             .connections = 50,
	             .pipeline = 1,
	             .threads = 1},
	    .distribution = "uniform",
	};
	struct template request = {0};
	struct weir_error error = {0};
	size_t digits;
	int status = read_flags(&given, argc, argv, &error) ?: resolve_loop(&given, &error) ?:
	             resolve_keys(&given, &digits, &error) ?: resolve_protocol(&given, &error) ?:
	             credentials_read(&given.login, &error) ?:
	             resolve_request(&given, digits, &request, &error) ?: resolve_tls(&given, &error);

	status = status == WEIR_OK ? run(&given) : command_fail("bench", "%s", error.message);
	template_free(&request);
	credentials_free(&given.login);
	buffer_wipe(&given.login_command);
	tls_flags_close(&given.tls);
	return status;
}

const struct command command_bench = {
    .name = "bench",
    .summary = "Load a server and measure its answers.",
    .uses = {"[--server ADDR] [--rate N] [--duration TIME] [FLAG]...", "--user NAME [FLAG]...",
             "--tls [--cacert FILE] [FLAG]..."},
    .exits = "0, 2 if the load could not run as requested",
    COMMAND_FLAGS(flags),
    .variables = {CREDENTIALS_VARIABLES},
    .run = bench,
};
