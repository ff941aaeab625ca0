/*
 * simulate.c: the command `weir simulate`: replays a log of requests, or made-up traffic, through
 * limits, and reports what they would have denied.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "cli/command.h"
#include "cli/simulate/clients.h"
#include "cli/simulate/limits.h"
#include "cli/simulate/per.h"
#include "cli/simulate/progress.h"
#include "cli/simulate/suggest.h"
#include "simulate/input/remove_latency_limits.h"
#include "simulate/input/trace.h"
#include "simulate/input/traffic_pattern.h"
#include "simulate/report/report.h"

#define EXIT_FAILED 1
#define CLEAR_LINE  "\r\033[K"

enum {
	CONFIG,
	TRACE,
	FORMAT,
	PATTERN,
	LIMIT,
	TRY,
	SUGGEST,
	DENY,
	BY,
	PER,
	KEY,
	CAPACITY,
	HTML,
	JSON,
	DECISIONS,
	CLIENTS,
	ATTEMPTS,
	TIMEOUT,
	THINK,
	BACKOFF,
	BACKEND,
	OVERLOAD,
	SEED,
	ATTR,
	FLAG_COUNT
};

static const struct flag flags[] = {
    [CONFIG] = {"config", "FILE", "the limits and rules to try; once for each file", 'c',
                "WEIR_CONFIG"},
    [TRACE] = {"trace", "FILE", "the log to replay, plain, gzip or zstd; - is standard input", 0,
               NULL},
    [FORMAT] = {"format", "NAME",
                "format of the log: " FORMAT_NAMES " (guessed from its first line)", 0, NULL},
    [PATTERN] = {"pattern", "NAME", "made-up traffic instead of a log: " PATTERN_NAMES, 0, NULL},
    [LIMIT] = {"limit", "NAME...", "try these limits side by side, without the rules", 0, NULL},
    [TRY] = {"try", "'NAME: {...}'", "try a limit that is written as in a file; repeatable", 0,
             NULL},
    [SUGGEST] = {"suggest", "ALGORITHM/PERIOD",
                 "find the smallest limit that denies few enough, and try it", 0, NULL},
    [DENY] = {"deny", "SHARE", "largest share that it may deny, such as 0.5% (" SUGGEST_DENY ")", 0,
              NULL},
    [BY] = {"by", "WHAT", "what the share counts: keys with any denial, or requests (keys)", 0,
            NULL},
    [PER] = {"per", "FIELD", "suggest a limit for each value of a field, such as path", 0, NULL},
    [KEY] = {"key", "FIELD", "key of every limit (the key of its first rule, or ip)", 0, NULL},
    [CAPACITY] = {"capacity", "N",
                  "keys that are counted at once (the configuration's, or 1000000)", 0,
                  "WEIR_CAPACITY"},
    [HTML] = {"html", "FILE", "write a page with charts", 0, NULL},
    [JSON] = {"json", NULL, "print one JSON object instead of a table", 0, NULL},
    [DECISIONS] = {"decisions", "FILE", "write a JSON line for each request and limit", 0, NULL},
    [CLIENTS] = {"clients", "N", "instead of a log: clients that retry, and a backend that slows",
                 0, NULL},
    [ATTEMPTS] = {"attempts", "N", "how often a client tries in all (" CLIENTS_ATTEMPTS ")", 0,
                  NULL},
    [TIMEOUT] = {"timeout", "T", "how long a client waits for an answer (" CLIENTS_TIMEOUT ")", 0,
                 NULL},
    [THINK] = {"think", "T", "pause of a client between requests, on average (" CLIENTS_THINK ")",
               0, NULL},
    [BACKOFF] = {"backoff", "T",
                 "longest first pause of a client, doubled for the next (" CLIENTS_BACKOFF ")", 0,
                 NULL},
    [BACKEND] = {"backend", "WORKERS,SERVICE_TIME[,STRAIN]",
                 "the backend of the clients (" CLIENTS_BACKEND ")", 0, NULL},
    [OVERLOAD] = {"overload", "FACTOR[,TIME]",
                  "how much slower the backend gets, and for how long (" CLIENTS_OVERLOAD ")", 0,
                  NULL},
    [SEED] = {"seed", "N", "another course of chance (" CLIENTS_SEED ")", 0, NULL},
    [ATTR] = {"attr", "NAME=VALUE", "an attribute of all requests of the clients; repeatable", 0,
              NULL},
};

struct simulation {
	const char *text[FLAG_COUNT]; /* the value of each flag, "" for one without; NULL if not set */
	struct simulate_limits limits;
	struct scenario *scenarios;
	struct replay replay;
	struct trace trace;
	FILE *html_file; /* NULL without --html */
	struct pattern pattern;
	struct suggest suggest;
	struct progress progress;
	struct clients clients;
};

/* Checks the flags of --suggest and passes them on. Returns 0 or the exit status. */
static int set_suggest_flags(struct simulation *simulation)
{
	struct weir_error error;

	simulation->suggest.algorithm_and_period = simulation->text[SUGGEST];
	simulation->suggest.deny = simulation->text[DENY];
	simulation->suggest.by = simulation->text[BY];
	simulation->suggest.key = simulation->text[KEY];
	simulation->suggest.path = simulation->text[TRACE];
	simulation->limits.may_be_none |= simulation->text[SUGGEST] != NULL;
	if (!simulation->text[SUGGEST] &&
	    (simulation->text[DENY] || simulation->text[BY] || simulation->text[PER]))
		return command_fail("simulate",
		                    "expected --suggest with --deny, --by and --per, found none");
	if (simulation->text[PER] && (simulation->text[HTML] || simulation->text[DECISIONS] ||
	                              simulation->limits.name_count || simulation->limits.tried_count))
		return command_fail("simulate",
		                    "expected --per without --html, --decisions, --limit and --try");
	if (simulation->text[SUGGEST] && !simulation->text[TRACE])
		return command_fail("simulate", "expected --trace with --suggest, found --pattern");
	if (simulation->text[SUGGEST] && suggest_check(&simulation->suggest, &error) != WEIR_OK)
		return command_fail("simulate", "%s", error.message);
	return 0;
}

/* Checks the flags of --clients and passes them on. Returns 0 or the exit status. */
static int set_clients_flags(struct simulation *simulation)
{
	const char *const *text = simulation->text;
	struct clients *clients = &simulation->clients;
	struct weir_error error;

	clients->count = text[CLIENTS];
	clients->attempts = text[ATTEMPTS];
	clients->timeout = text[TIMEOUT];
	clients->think = text[THINK];
	clients->backoff = text[BACKOFF];
	clients->backend = text[BACKEND];
	clients->overload = text[OVERLOAD];
	clients->seed = text[SEED];
	for (int flag = ATTEMPTS; flag <= ATTR && !text[CLIENTS]; flag++)
		if (text[flag])
			return command_fail("simulate", "expected --clients with --%s, found none",
			                    flags[flag].name);
	if (!text[CLIENTS])
		return 0;
	if (text[DECISIONS] || text[SUGGEST])
		return command_fail("simulate", "expected --trace with --%s, found --clients",
		                    text[SUGGEST] ? "suggest" : "decisions");
	simulation->limits.may_be_none = true;
	return clients_read(clients, &error) == WEIR_OK ? 0
	                                                : command_fail("simulate", "%s", error.message);
}

/* Reads all flags. Returns 0 or the exit status. */
static int set_flags(struct simulation *simulation, int argc, char **argv)
{
	struct arguments arguments;
	int flag;

	arguments_begin(&arguments, &command_simulate, argc, argv);
	while ((flag = arguments_next(&arguments)) >= 0) {
		if (flag == CONFIG)
			settings_add(&simulation->limits.settings, SETTING_CONFIG, arguments.value);
		else
			simulation->text[flag] = arguments.value ? arguments.value : "";
		if (flag == LIMIT)
			simulation->limits.names[simulation->limits.name_count++] = arguments.value;
		if (flag == ATTR)
			simulation->clients.attributes[simulation->clients.attribute_count++] = arguments.value;
		if (flag == TRY)
			simulation->limits.tried[simulation->limits.tried_count++] = arguments.value;
	}
	/* --limit a b means --limit a --limit b. */
	for (; simulation->limits.name_count > 0 && optind < argc; optind++)
		simulation->limits.names[simulation->limits.name_count++] = argv[optind];
	if (optind < argc)
		return arguments_refuse(&command_simulate, argv[optind]);
	if (!!simulation->text[TRACE] + !!simulation->text[PATTERN] + !!simulation->text[CLIENTS] != 1)
		return command_fail("simulate",
		                    "expected one of --trace, --pattern and --clients, found %s",
		                    simulation->text[TRACE] || simulation->text[PATTERN] ? "two" : "none");
	return set_clients_flags(simulation) ?: set_suggest_flags(simulation);
}

static int find_limit_index(const struct weir_config *config, const char *name, size_t *out,
                            struct weir_error *error)
{
	for (*out = 0; *out < config->limit_count; ++*out)
		if (strcmp(config->limits[*out].options.name, name) == 0)
			return WEIR_OK;
	return error_set(error, WEIR_ENOTFOUND, "--limit: expected a limit of the file, found '%.64s'",
	                 name);
}

/* Whether to replay the rules of the files, and not single limits. */
static bool replays_rules(const struct simulation *simulation)
{
	return simulation->limits.name_count == 0 && simulation->limits.tried_count == 0 &&
	       !simulation->text[SUGGEST] && !simulation->text[PATTERN] && !simulation->text[KEY] &&
	       simulation->limits.config->rule_count > 0;
}

/* Finds the index in the configuration of the i-th limit to replay. */
static int find_limit_to_replay(const struct simulate_limits *limits, size_t i, size_t *out,
                                struct weir_error *error)
{
	*out = i;
	if (limits->name_count == 0)
		return WEIR_OK;
	for (size_t j = 0; j < i; j++)
		if (strcmp(limits->names[i], limits->names[j]) == 0)
			return error_set(error, WEIR_EINVAL,
			                 "--limit: expected each limit once, found '%.64s' twice",
			                 limits->names[i]);
	return find_limit_index(limits->config, limits->names[i], out, error);
}

/*
 * Returns the key of a limit that is tried alone; NULL for that of its first rule, or the client's
 * address. Clients of a pattern have an address, and no other attributes. With --clients the limit
 * guards the backend: where no rule says otherwise, all requests have one key.
 */
static const char *key_of_limit(const struct simulation *simulation,
                                const struct weir_config *config, size_t limit)
{
	if (simulation->text[KEY])
		return simulation->text[KEY];
	if (simulation->text[CLIENTS] && !scenario_rule_of_limit(config, limit))
		return SCENARIO_ONE_KEY;
	return simulation->text[PATTERN] ? "ip" : NULL;
}

/*
 * Opens what the log is replayed through: one scenario with all rules, or one for each limit, which
 * are then compared side by side.
 */
static int open_scenarios(struct simulation *simulation, struct weir_error *error)
{
	const struct simulate_limits *limits = &simulation->limits;
	const struct weir_config *config = limits->config;
	bool by_rules = replays_rules(simulation);
	size_t n = by_rules ? 1 : limits->name_count ? limits->name_count : config->limit_count;
	int status = WEIR_OK;

	if (config->limit_count == 0 && !by_rules && !simulation->text[CLIENTS])
		return error_set(error, WEIR_EINVAL, "expected limits in the file, found none");
	/* a field with a meaning of its own, such as the time, is no attribute */
	if (simulation->text[KEY] &&
	    format_target(&simulation->replay.fields, slice_of(simulation->text[KEY])) != TARGET_NONE)
		return error_set(error, WEIR_EINVAL, "--key: expected an attribute, found '%s'",
		                 simulation->text[KEY]);
	simulation->replay.scenarios = simulation->scenarios =
	    calloc(n + 1, sizeof *simulation->scenarios);
	if (!simulation->scenarios)
		return error_set(error, WEIR_ENOMEM, "out of memory");
	for (size_t i = 0; i < n && status == WEIR_OK; i++) {
		struct scenario *scenario = &simulation->scenarios[simulation->replay.scenario_count++];
		size_t limit;

		if (by_rules)
			status = scenario_open_rules(scenario, config, limits->capacity, error);
		else
			status = find_limit_to_replay(limits, i, &limit, error)
			             ?: scenario_open_limit(scenario, config, limit,
			                                    key_of_limit(simulation, config, limit),
			                                    limits->capacity, error);
		if (status == WEIR_OK)
			status = scenario_add_fields(scenario, &simulation->replay.fields, error);
	}
	return status;
}

/* Sets the format of --format; NULL if it is to be guessed. */
static int find_format(const struct simulation *simulation, const struct format **format,
                       struct weir_error *error)
{
	*format = NULL;
	if (!simulation->text[FORMAT] || (*format = format_named(simulation->text[FORMAT])))
		return WEIR_OK;
	return error_set(error, WEIR_EINVAL, "--format: expected " FORMAT_NAMES ", found '%.40s'",
	                 simulation->text[FORMAT]);
}

/* Searches for the limit of --suggest, and adds it to those that are replayed. */
static int find_suggestion(struct simulation *simulation, const struct format *format,
                           struct weir_error *error)
{
	int status;

	simulation->suggest.format = format;
	simulation->suggest.capacity = simulation->limits.capacity;
	simulation->suggest.progress = &simulation->progress;
	status = suggest_run(&simulation->suggest, error);
	return status == WEIR_OK ? simulate_limits_add(&simulation->limits, "--suggest",
	                                               simulation->suggest.found.limit, error)
	                         : status;
}

/*
 * Opens the log, after it has been searched for a suggestion. Removes limits that need latencies of
 * requests if the log has none; a pattern never has any.
 */
static int open_log(struct simulation *simulation, struct weir_error *error)
{
	const struct format *format = NULL;
	int status = WEIR_OK;

	if (simulation->text[TRACE])
		status = find_format(simulation, &format, error);
	if (status != WEIR_OK)
		return status;
	if (simulation->text[SUGGEST])
		status = find_suggestion(simulation, format, error);
	if (simulation->text[SUGGEST] && status == WEIR_OK) {
		int fd = reusable_log_reopen(&simulation->suggest.log, simulation->text[TRACE], error);

		simulation->trace.path = simulation->text[TRACE];
		status = fd < 0 ? fd
		                : trace_open_descriptor(&simulation->trace, fd, format,
		                                        &simulation->replay.fields, stderr, error);
	} else if (simulation->text[TRACE] && status == WEIR_OK)
		status = trace_open(&simulation->trace, simulation->text[TRACE], format,
		                    &simulation->replay.fields, stderr, error);
	if (status != WEIR_OK || simulation->text[CLIENTS] ||
	    (simulation->text[TRACE] && trace_has_latency(&simulation->trace)))
		return status;
	return remove_latency_limits(simulation->limits.config, simulation->limits.names,
	                             simulation->limits.name_count, stderr, error);
}

/*
 * The first limit that has a rate, or the last one if none has. Each scenario of a pattern has one
 * limit.
 */
static const struct tally *find_limit_with_rate(const struct simulation *simulation)
{
	const struct tally *tally = NULL;

	for (size_t i = 0; i < simulation->replay.scenario_count; i++) {
		tally = &simulation->scenarios[i].tallies[0];
		if (tally->declared->options.rate.count > 0)
			break;
	}
	return tally;
}

/* Sets where requests come from: the log, or a pattern, which is scaled to a limit with a rate. */
static int open_source(struct simulation *simulation, struct source *source,
                       struct weir_error *error)
{
	const struct tally *scale;

	*source = (struct source){trace_next, &simulation->trace};
	if (!simulation->text[PATTERN])
		return WEIR_OK;
	*source = (struct source){pattern_next, &simulation->pattern};
	scale = find_limit_with_rate(simulation);
	return pattern_open(&simulation->pattern, simulation->text[PATTERN], scale->limit,
	                    scale->declared->options.rate.count, &simulation->replay.fields, error);
}

/* Opens a file for output; called before the replay. Refuses to overwrite the log. */
static int open_output(const struct simulation *simulation, const char *path, FILE **out,
                       struct weir_error *error)
{
	struct stat file, log;
	bool is_log = simulation->text[TRACE] && stat(path, &file) == 0 &&
	              fstat(simulation->trace.lines.fd, &log) == 0 && S_ISREG(file.st_mode) &&
	              file.st_ino == log.st_ino && file.st_dev == log.st_dev;

	if (is_log)
		return error_set(error, WEIR_EINVAL, "%s: expected a file to write to, found the log",
		                 path);
	*out = fopen(path, "wbe");
	return *out ? WEIR_OK
	            : error_set(error, WEIR_EIO, "%s: expected a file to write to, found: %m", path);
}

/* Opens the files of --decisions and --html. */
static int open_outputs(struct simulation *simulation, struct weir_error *error)
{
	const char *decisions = simulation->text[DECISIONS], *page = simulation->text[HTML];
	int status = WEIR_OK;

	if (decisions && strcmp(decisions, "-") == 0)
		simulation->replay.decisions = fdopen(dup(STDOUT_FILENO), "we");
	else if (decisions)
		status = open_output(simulation, decisions, &simulation->replay.decisions, error);
	if (status == WEIR_OK && decisions && !simulation->replay.decisions)
		status = error_set(error, WEIR_EIO, "can't write the decisions: %m");
	if (status == WEIR_OK && page)
		status = open_output(simulation, page, &simulation->html_file, error);
	return status;
}

/* Writes and closes the page. */
static int write_page(struct simulation *simulation, const struct buffer *page,
                      struct weir_error *error)
{
	bool written = fwrite(page->data, 1, page->len, simulation->html_file) == page->len;

	if (fclose(simulation->html_file) != 0)
		written = false;
	simulation->html_file = NULL;
	return written
	           ? WEIR_OK
	           : error_set(error, WEIR_EIO, "%s: can't write the page: %m", simulation->text[HTML]);
}

/* Writes the result to standard output as text or JSON, and the page of --html. */
static int write_reports(struct simulation *simulation, struct weir_error *error)
{
	const struct report report = {
	    .replay = &simulation->replay,
	    .source = simulation->text[TRACE]     ? simulation->text[TRACE]
	              : simulation->text[PATTERN] ? simulation->text[PATTERN]
	                                          : "clients",
	    .malformed = simulation->trace.malformed,
	    .decided_by_rules = replays_rules(simulation),
	    .suggestion = simulation->text[SUGGEST] ? &simulation->suggest.found : NULL,
	    .clients = simulation->text[CLIENTS] ? &simulation->clients.report : NULL,
	};
	const char *no_color = getenv("NO_COLOR");
	bool is_plain = !isatty(STDOUT_FILENO) || (no_color && *no_color);
	struct buffer out = {0}, page = {0};
	int status = WEIR_OK;

	/* The page first: it needs narrower intervals, and merged intervals can't be split again. */
	if (simulation->html_file) {
		replay_widen(&simulation->replay, report_html_intervals(&simulation->replay));
		report_html(&report, &page);
	}
	replay_widen(&simulation->replay, TIMELINE_SHOWN);
	if (simulation->text[JSON])
		report_json(&report, &out);
	else
		report_text(&report, is_plain, &out);
	if (out.failed || page.failed)
		status = error_set(error, WEIR_ENOMEM, "out of memory");
	if (status == WEIR_OK && simulation->html_file)
		status = write_page(simulation, &page, error);
	if (status == WEIR_OK &&
	    (fwrite(out.data, 1, out.len, stdout) != out.len || fflush(stdout) != 0))
		status = error_set(error, WEIR_EIO, "can't write the result: %m");
	buffer_free(&out);
	buffer_free(&page);
	return status;
}

/* Opens all inputs and outputs, replays the requests, and writes the reports. */
static int replay_and_report(struct simulation *simulation, struct weir_error *error)
{
	struct source source;
	int status;

	progress_open(&simulation->progress);
	simulation->limits.settings.text[SETTING_CAPACITY] = simulation->text[CAPACITY];
	status = simulate_limits_read(&simulation->limits, simulation->text[PATTERN], error) ?:
	             open_log(simulation, error) ?: open_scenarios(simulation, error) ?:
	             open_source(simulation, &source, error) ?: open_outputs(simulation, error);
	if (status == WEIR_OK && simulation->progress.is_shown) {
		simulation->progress.trace = simulation->text[TRACE] ? &simulation->trace : NULL;
		simulation->replay.progress = progress_show;
		simulation->replay.progress_context = &simulation->progress;
		simulation->trace.before_report = CLEAR_LINE;
	}
	if (status == WEIR_OK && simulation->text[CLIENTS])
		status = clients_run(&simulation->clients, &simulation->replay,
		                     replays_rules(simulation) ? "the rules" : NULL, &simulation->progress,
		                     error);
	else if (status == WEIR_OK)
		status = replay_run(&simulation->replay, &source, error);
	progress_clear(&simulation->progress);
	if (status == WEIR_OK && simulation->replay.requests == 0)
		status = error_set(error, WEIR_ESYNTAX, "%s: expected requests, found none",
		                   simulation->text[TRACE]);
	if (status == WEIR_OK)
		status = write_reports(simulation, error);
	if (simulation->replay.decisions && fclose(simulation->replay.decisions) != 0 &&
	    status == WEIR_OK)
		status = error_set(error, WEIR_EIO, "%s: %m", simulation->text[DECISIONS]);
	if (simulation->html_file)
		fclose(simulation->html_file);
	return status;
}

/* Suggests a limit for each value of the field of --per, and prints them. */
static int suggest_per(struct simulation *simulation, struct weir_error *error)
{
	struct per per = {.field = simulation->text[PER]};
	struct suggest *suggest = &simulation->suggest;
	struct buffer out = {0};
	int status;

	progress_open(&simulation->progress);
	simulation->limits.settings.text[SETTING_CAPACITY] = simulation->text[CAPACITY];
	status = simulate_limits_read(&simulation->limits, NULL, error);
	suggest->capacity = simulation->limits.capacity;
	suggest->progress = &simulation->progress;
	if (status == WEIR_OK)
		status = find_format(simulation, &suggest->format, error) ?: per_run(&per, suggest, error);
	progress_clear(&simulation->progress);
	if (status != WEIR_OK)
		return status;
	if (simulation->text[JSON])
		per_add_json(&per, &out);
	else
		per_add_text(&per, suggest, &out);
	if (out.failed)
		status = error_set(error, WEIR_ENOMEM, "out of memory");
	else if (fwrite(out.data, 1, out.len, stdout) != out.len || fflush(stdout) != 0)
		status = error_set(error, WEIR_EIO, "can't write the result: %m");
	buffer_free(&out);
	return status;
}

static int run_simulate(int argc, char **argv)
{
	struct simulation simulation = {0};
	struct weir_error error = {0};
	int result;

	simulation.clients.attributes = calloc((size_t)argc, sizeof *simulation.clients.attributes);
	result =
	    simulation.clients.attributes && simulate_limits_open(&simulation.limits, argc) == WEIR_OK
	        ? set_flags(&simulation, argc, argv)
	        : command_fail("simulate", "out of memory");

	if (result == 0 &&
	    (simulation.text[PER] ? suggest_per : replay_and_report)(&simulation, &error) != WEIR_OK) {
		if (*error.message) /* empty if errors of the files were printed already */
			command_fail("simulate", "%s", error.message);
		result = EXIT_FAILED;
	}
	trace_close(&simulation.trace);
	suggest_close(&simulation.suggest);
	clients_close(&simulation.clients);
	for (size_t i = 0; i < simulation.replay.scenario_count; i++)
		scenario_close(&simulation.scenarios[i]);
	free(simulation.scenarios);
	simulate_limits_close(&simulation.limits);
	return result;
}

const struct command command_simulate = {
    .name = "simulate",
    .summary = "Replay a log, or made-up traffic, through limits.",
    .uses = {"-c FILE... --trace FILE [FLAG]...", "--try 'NAME: {...}' --trace FILE [FLAG]...",
             "--suggest ALGORITHM/PERIOD --trace FILE [FLAG]...",
             "[-c FILE] --pattern NAME [FLAG]...", "[-c FILE] --clients N [FLAG]..."},
    .examples = {"weir simulate -c weir.yaml --trace access.log",
                 "weir simulate --try 'api: {algorithm: token_bucket, rate: 10/s}' --trace "
                 "access.log --html report.html",
                 "weir simulate --suggest token_bucket/s --trace access.log"},
    .exits = "0, 1 if it can't replay the log, 2 for a wrong argument",
    COMMAND_FLAGS(flags),
    .run = run_simulate,
};
