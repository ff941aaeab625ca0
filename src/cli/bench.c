#include <getopt.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/number.h"
#include "cli/bench_report.h"
#include "cli/command.h"
#include "load/load.h"

#define EXIT_TROUBLE    2
#define DEFAULT_COMMAND "CL.THROTTLE key:{key} 15 1000 1"

/* The values of the flags, before they are put together. */
struct flags {
	struct load_options load;
	const char *server, *protocol, *command, *limit, *path, *distribution;
	uint64_t key_len, pid;
	bool json, help;
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
	} units[] = {{"us", 1000}, {"ms", NS_PER_MS}, {"s", NS_PER_S}, {"m", 60 * NS_PER_S},
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

/* Numbers and times have bounds; a time's are in nanoseconds. */
static const struct flag {
	const char *name;
	size_t at;
	enum kind kind;
	uint64_t min, max;
	const char *help;
} table[] = {
#define AT(member) offsetof(struct flags, member)
    {"server", AT(server), TEXT, 0, 0, "ADDR: 127.0.0.1:6380, or :8080 for http"},
    {"protocol", AT(protocol), TEXT, 0, 0, "resp or http: resp, unless --path is given"},
    {"command", AT(command), TEXT, 0, 0, "of RESP: \"CL.THROTTLE key:{key} 15 1000 1\""},
    {"limit", AT(limit), TEXT, 0, 0, "NAME: a limit of the server's file, by its key {key}"},
    {"path", AT(path), TEXT, 0, 0, "of an HTTP GET: /v1/acquire/NAME?key={key}"},
    {"connections", AT(load.connections), COUNT, 1, LOAD_CONNECTIONS_MAX, "N: 50"},
    {"pipeline", AT(load.pipeline), COUNT, 1, LOAD_PIPELINE_MAX, "N requests at once on each: 1"},
    {"threads", AT(load.threads), COUNT, 1, LOAD_THREADS_MAX, "N: 1"},
    {"requests", AT(load.requests), COUNT, 1, UINT64_MAX / 2, "N, instead of a duration"},
    {"duration", AT(load.duration_ns), TIME, 1, LOAD_DURATION_MAX_NS, "TIME: 10s"},
    {"warmup", AT(load.warmup_ns), TIME, 0, LOAD_DURATION_MAX_NS,
     "TIME before anything counts: 1s, or 0s with --requests"},
    {"timeout", AT(load.timeout_ns), TIME, 1, LOAD_DURATION_MAX_NS,
     "TIME of a server's silence that ends the run: 10s"},
    {"rate", AT(load.rate), COUNT, 1, LOAD_RATE_MAX, "N a second: an open loop"},
    {"keys", AT(load.keys.count), COUNT, 1, KEYS_MAX, "N: 1000000"},
    {"distribution", AT(distribution), TEXT, 0, 0, "uniform, zipf:1.1, sequential or single"},
    {"key-length", AT(key_len), COUNT, 1, WEIR_KEY_MAX, "N bytes: as many as the keys need"},
    {"seed", AT(load.seed), COUNT, 0, UINT64_MAX, "N: 1"},
    {"pid", AT(pid), COUNT, 1, INT32_MAX, "PID of a server here, for its CPU time"},
#undef AT
};

#define FLAG_COUNT (sizeof table / sizeof *table)
#define FLAG_JSON  (256 + (int)FLAG_COUNT)
#define FLAG_HELP  (FLAG_JSON + 1)

static int help(void)
{
	puts("usage: weir bench [OPTION]...\n");
	for (size_t i = 0; i < FLAG_COUNT; i++)
		printf("  --%-13s %s\n", table[i].name, table[i].help);
	puts("  --json          one JSON object instead of text");
	return 0;
}

static int set_flag(struct flags *flags, const struct flag *flag, const char *text,
                    struct weir_error *error)
{
	void *out = (char *)flags + flag->at;

	if (!kinds[flag->kind].parse(text, out))
		return error_set(error, WEIR_EINVAL, "--%s: expected %s, found '%.80s'", flag->name,
		                 kinds[flag->kind].expected, text);
	if (flag->kind == COUNT && (*(uint64_t *)out < flag->min || *(uint64_t *)out > flag->max))
		return error_set(error, WEIR_EINVAL, "--%s: expected %llu to %llu, found %.80s", flag->name,
		                 (unsigned long long)flag->min, (unsigned long long)flag->max, text);
	if (flag->kind == TIME && (*(uint64_t *)out < flag->min || *(uint64_t *)out > flag->max))
		return error_set(error, WEIR_EINVAL, "--%s: expected a time %sof at most a day, found %.80s",
		                 flag->name, flag->min > 0 ? "above zero and " : "", text);
	return WEIR_OK;
}

static int set_flags(struct flags *flags, int argc, char **argv, struct weir_error *error)
{
	struct option options[FLAG_COUNT + 3] = {0};
	int option, status = WEIR_OK;

	for (size_t i = 0; i < FLAG_COUNT; i++)
		options[i] = (struct option){table[i].name, required_argument, NULL, 256 + (int)i};
	options[FLAG_COUNT] = (struct option){"json", no_argument, NULL, FLAG_JSON};
	options[FLAG_COUNT + 1] = (struct option){"help", no_argument, NULL, FLAG_HELP};
	while (status == WEIR_OK && (option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (option == '?')
			return error_set(error, WEIR_EINVAL, "see weir bench --help");
		if (option == FLAG_JSON)
			flags->json = true;
		else if (option == FLAG_HELP)
			flags->help = true;
		else
			status = set_flag(flags, &table[option - 256], optarg, error);
	}
	if (status == WEIR_OK && optind < argc)
		return command_no_option(argv[optind], error);
	return status;
}

static int resolve_loop(struct flags *flags, struct weir_error *error)
{
	struct load_options *load = &flags->load;

	if (load->requests > 0 && load->duration_ns > 0)
		return error_set(error, WEIR_EINVAL, "expected --requests or --duration, found both");
	if (load->duration_ns == 0)
		load->duration_ns = 10 * NS_PER_S;
	if (load->warmup_ns == UINT64_MAX)
		load->warmup_ns = load->requests > 0 ? 0 : NS_PER_S;
	load->server_pid = (pid_t)flags->pid;
	if (load->connections < load->threads)
		return error_set(error, WEIR_EINVAL,
		                 "expected a connection for each of %zu threads, found %zu", load->threads,
		                 load->connections);
	return WEIR_OK;
}

static int resolve_keys(struct flags *flags, size_t *digits, struct weir_error *error)
{
	char text[20];
	int status = keys_parse_distribution(slice_of(flags->distribution), &flags->load.keys, error);

	if (status != WEIR_OK)
		return status;
	*digits = (size_t)(format_u64(text, flags->load.keys.count - 1) - text);
	if (flags->key_len == 0)
		flags->key_len = *digits;
	if (flags->key_len < *digits)
		return error_set(error, WEIR_EINVAL,
		                 "expected --key-length of at least %zu for %llu keys, found %llu", *digits,
		                 (unsigned long long)flags->load.keys.count,
		                 (unsigned long long)flags->key_len);
	return WEIR_OK;
}

/* The one flag that says what to ask for, as a command or a path. */
static int resolve_protocol(struct flags *flags, struct weir_error *error)
{
	bool http;

	if (!flags->protocol)
		flags->protocol = flags->path ? "http" : "resp";
	http = strcmp(flags->protocol, "http") == 0;
	if (!http && strcmp(flags->protocol, "resp") != 0)
		return error_set(error, WEIR_EINVAL, "--protocol: expected resp or http, found '%.80s'",
		                 flags->protocol);
	if (!!flags->command + !!flags->limit + !!flags->path > 1)
		return error_set(error, WEIR_EINVAL,
		                 "expected one of --command, --limit and --path, found several");
	if (http ? flags->command != NULL : flags->path != NULL)
		return error_set(error, WEIR_EINVAL, "expected --%s with --protocol %s, found --%s",
		                 http ? "path" : "command", flags->protocol, http ? "command" : "path");
	if (http && !flags->limit && !flags->path)
		return error_set(error, WEIR_EINVAL, "expected --limit or --path with --protocol http");
	if (!flags->server)
		flags->server = http ? "127.0.0.1:8080" : "127.0.0.1:6380";
	return net_address_parse(slice_of(flags->server), &flags->load.server, error);
}

static int resolve_request(struct flags *flags, size_t digits, struct template *request,
                           struct weir_error *error)
{
	bool http = strcmp(flags->protocol, "http") == 0;
	const char *plain = http ? flags->path : flags->command ? flags->command : DEFAULT_COMMAND;
	struct buffer text = {0};
	int status;

	if (flags->limit)
		buffer_printf(&text, http ? "/v1/acquire/%s?key={key}" : "WEIR.ACQUIRE %s {key}",
		              flags->limit);
	else
		buffer_add_text(&text, plain);
	buffer_add(&text, "", 1);
	if (text.failed)
		status = error_set(error, WEIR_ENOMEM, "out of memory");
	else if (http)
		status = template_http(request, text.data, flags->server, flags->key_len, digits, error);
	else
		status = template_resp(request, text.data, flags->key_len, digits, error);
	if (status == WEIR_OK) {
		const char *word = text.data + strspn(text.data, " \t");

		flags->load.replies =
		    http ? scan_http() : scan_resp((struct slice){word, strcspn(word, " \t")});
		flags->load.request = request;
	}
	buffer_free(&text);
	return status;
}

static int run(const struct flags *flags)
{
	struct load_result *result = malloc(sizeof *result);
	const struct load_options *load = &flags->load;
	bench_report *report = flags->json ? bench_report_json : bench_report_text;
	struct weir_error error = {0};
	int status = EXIT_TROUBLE;

	if (!result)
		return command_fail("bench", "out of memory");
	if (load_run(load, result, &error) != WEIR_OK) {
		command_fail("bench", "%s", error.message);
	} else {
		bool told = report(stdout, load, flags->protocol, flags->distribution, result);

		fflush(stdout);
		if (!told)
			command_fail("bench", "can't write the result");
		else
			status = result->trouble[0] ? command_fail("bench", "%s", result->trouble) : 0;
	}
	free(result);
	return status;
}

int command_bench(int argc, char **argv)
{
	struct flags flags = {
	    .load = {.keys.count = 1000000, .seed = 1, .warmup_ns = UINT64_MAX,
	             .timeout_ns = 10 * NS_PER_S, .connections = 50, .pipeline = 1, .threads = 1},
	    .distribution = "uniform",
	};
	struct template request = {0};
	struct weir_error error = {0};
	size_t digits;
	int status = set_flags(&flags, argc, argv, &error);

	if (status == WEIR_OK && flags.help)
		return help();
	if (status == WEIR_OK)
		status = resolve_loop(&flags, &error) ?: resolve_keys(&flags, &digits, &error) ?:
		         resolve_protocol(&flags, &error) ?:
		         resolve_request(&flags, digits, &request, &error);
	status = status == WEIR_OK ? run(&flags) : command_fail("bench", "%s", error.message);
	template_free(&request);
	return status;
}
