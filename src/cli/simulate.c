/*
 * simulate.c: the command `weir simulate`: replays a log of requests, or made-up traffic, through
 * limits, and reports what they would have denied.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "cli/command.h"
#include "cli/simulate_limits.h"
#include "cli/simulate_suggest.h"
#include "simulate/input/remove_latency_limits.h"
#include "simulate/input/trace.h"
#include "simulate/input/traffic_pattern.h"
#include "simulate/report/report.h"

#define EXIT_FAILED 1
#define BAR         30
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
	KEY,
	CAPACITY,
	HTML,
	JSON,
	DECISIONS,
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
    [KEY] = {"key", "FIELD", "key of every limit (the key of its first rule, or ip)", 0, NULL},
    [CAPACITY] = {"capacity", "N",
                  "keys that are counted at once (the configuration's, or 1000000)", 0,
                  "WEIR_CAPACITY"},
    [HTML] = {"html", "FILE", "write a page with charts", 0, NULL},
    [JSON] = {"json", NULL, "print one JSON object instead of a table", 0, NULL},
    [DECISIONS] = {"decisions", "FILE", "write a JSON line for each request and limit", 0, NULL},
};

struct simulation {
	const char *text[FLAG_COUNT]; /* as given; NULL if not given */
	struct simulate_limits limits;
	struct scenario *scenarios;
	struct replay replay;
	struct trace trace;
	FILE *page; /* NULL without --html */
	struct pattern pattern;
	struct suggest suggest;
};

/* Returns 0 or the exit status. */
static int set_suggest(struct simulation *s)
{
	struct weir_error error;

	s->suggest.what = s->text[SUGGEST];
	s->suggest.deny = s->text[DENY];
	s->suggest.by = s->text[BY];
	s->suggest.key = s->text[KEY];
	s->suggest.path = s->text[TRACE];
	s->limits.may_be_none = s->text[SUGGEST];
	if (!s->text[SUGGEST] && (s->text[DENY] || s->text[BY]))
		return command_fail("simulate", "expected --suggest with --deny and --by, found none");
	if (s->text[SUGGEST] && !s->text[TRACE])
		return command_fail("simulate", "expected --trace with --suggest, found --pattern");
	if (s->text[SUGGEST] && suggest_check(&s->suggest, &error) != WEIR_OK)
		return command_fail("simulate", "%s", error.message);
	return 0;
}

/* Returns 0 or the exit status. */
static int set_flags(struct simulation *s, int argc, char **argv)
{
	struct arguments arguments;
	int flag;

	arguments_begin(&arguments, &command_simulate, argc, argv);
	while ((flag = arguments_next(&arguments)) >= 0) {
		if (flag == CONFIG)
			settings_add(&s->limits.settings, SETTING_CONFIG, arguments.value);
		else
			s->text[flag] = arguments.value ? arguments.value : "";
		if (flag == LIMIT)
			s->limits.names[s->limits.name_count++] = arguments.value;
		if (flag == TRY)
			s->limits.tried[s->limits.tried_count++] = arguments.value;
	}
	/* --limit a b means --limit a --limit b. */
	for (; s->limits.name_count > 0 && optind < argc; optind++)
		s->limits.names[s->limits.name_count++] = argv[optind];
	if (optind < argc)
		return arguments_refuse(&command_simulate, argv[optind]);
	if (!s->text[TRACE] == !s->text[PATTERN])
		return command_fail("simulate", "expected --trace or --pattern, found %s",
		                    s->text[TRACE] ? "both" : "neither");
	return set_suggest(s);
}

static int limit_index(const struct weir_config *config, const char *name, size_t *out,
                       struct weir_error *error)
{
	for (*out = 0; *out < config->limit_count; ++*out)
		if (strcmp(config->limits[*out].options.name, name) == 0)
			return WEIR_OK;
	return error_set(error, WEIR_ENOTFOUND, "--limit: expected a limit of the file, found '%.64s'",
	                 name);
}

/* Whether to replay the rules of the files, and not single limits. */
static bool replays_rules(const struct simulation *s)
{
	return s->limits.name_count == 0 && s->limits.tried_count == 0 && !s->text[SUGGEST] &&
	       !s->text[PATTERN] && !s->text[KEY] && s->limits.config->rule_count > 0;
}

/* Finds the i-th limit to replay. */
static int find_limit(const struct simulate_limits *limits, size_t i, size_t *out,
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
	return limit_index(limits->config, limits->names[i], out, error);
}

/* Opens one scenario of the rules, or one for each limit. */
static int open_scenarios(struct simulation *s, struct weir_error *error)
{
	const struct simulate_limits *limits = &s->limits;
	const struct weir_config *config = limits->config;
	bool as_rules = replays_rules(s);
	/* Clients of a pattern have an address, and no other attributes for keys. */
	const char *key = s->text[KEY] ? s->text[KEY] : s->text[PATTERN] ? "ip" : NULL;
	size_t n = as_rules ? 1 : limits->name_count ? limits->name_count : config->limit_count;
	int status = WEIR_OK;

	if (config->limit_count == 0 && !as_rules)
		return error_set(error, WEIR_EINVAL, "expected limits in the file, found none");
	if (s->text[KEY] && format_target(&s->replay.fields, slice_of(s->text[KEY])) != TARGET_NONE)
		return error_set(error, WEIR_EINVAL, "--key: expected an attribute, found '%s'",
		                 s->text[KEY]);
	s->replay.scenarios = s->scenarios = calloc(n, sizeof *s->scenarios);
	if (!s->scenarios)
		return error_set(error, WEIR_ENOMEM, "out of memory");
	for (size_t i = 0; i < n && status == WEIR_OK; i++) {
		struct scenario *scenario = &s->scenarios[s->replay.scenario_count++];
		size_t limit;

		status = as_rules ? scenario_open_rules(scenario, config, limits->capacity, error)
		                  : find_limit(limits, i, &limit, error) ?:
		                    scenario_open_limit(scenario, config, limit, key, limits->capacity, error);
		if (status == WEIR_OK)
			status = scenario_fields(scenario, &s->replay.fields, error);
	}
	return status;
}

static void show_progress(void *context, uint64_t requests)
{
	const struct simulation *s = context;
	uint64_t percent =
	    s->trace.size ? unpack_consumed(s->trace.lines.unpack) * 100 / s->trace.size : 0;
	int bars = (int)(u64_min(percent, 100) * BAR / 100);
	struct winsize window = {0};

	fputc('\r', stderr);
	/* Draw no bar where the line would wrap, since it could not be overwritten. */
	ioctl(STDERR_FILENO, TIOCGWINSZ, &window);
	if (s->trace.size && (window.ws_col == 0 || window.ws_col >= 2 * BAR))
		fprintf(stderr, "[%.*s%*s]", bars, "##############################", BAR - bars, "");
	if (s->trace.size)
		fprintf(stderr, " %3llu%%", (unsigned long long)percent);
	fprintf(stderr, " %llu requests ", (unsigned long long)requests);
}

/* Searches for the limit of --suggest, and adds it to those that are replayed. */
static int find_suggestion(struct simulation *s, const struct format *format,
                           struct weir_error *error)
{
	int status;

	s->suggest.format = format;
	s->suggest.capacity = s->limits.capacity;
	if (isatty(STDERR_FILENO)) {
		s->suggest.progress = show_progress;
		s->suggest.progress_context = s;
	}
	status = suggest_run(&s->suggest, error);
	return status == WEIR_OK
	           ? simulate_limits_add(&s->limits, "--suggest", s->suggest.found.limit, error)
	           : status;
}

/*
 * Opens the log, and removes limits that need latencies if the log has none. A pattern never has
 * any.
 */
static int open_log(struct simulation *s, struct weir_error *error)
{
	const struct format *format = NULL;
	int status = WEIR_OK;

	if (s->text[TRACE] && s->text[FORMAT] && !(format = format_named(s->text[FORMAT])))
		return error_set(error, WEIR_EINVAL, "--format: expected " FORMAT_NAMES ", found '%.40s'",
		                 s->text[FORMAT]);
	if (s->text[SUGGEST])
		status = find_suggestion(s, format, error);
	if (s->text[SUGGEST] && status == WEIR_OK) {
		int fd = reusable_log_reopen(&s->suggest.log, s->text[TRACE], error);

		s->trace.path = s->text[TRACE];
		status =
		    fd < 0 ? fd
		           : trace_open_descriptor(&s->trace, fd, format, &s->replay.fields, stderr, error);
	} else if (s->text[TRACE] && status == WEIR_OK)
		status = trace_open(&s->trace, s->text[TRACE], format, &s->replay.fields, stderr, error);
	if (status != WEIR_OK || (s->text[TRACE] && trace_has_latency(&s->trace)))
		return status;
	return remove_latency_limits(s->limits.config, s->limits.names, s->limits.name_count, stderr,
	                             error);
}

static int open_source(struct simulation *s, struct source *source, struct weir_error *error)
{
	const struct tally *first = &s->scenarios[0].tallies[0];

	for (size_t i = 1; i < s->replay.scenario_count && first->declared->options.rate.count == 0;
	     i++)
		first = &s->scenarios[i].tallies[0];
	*source = (struct source){trace_next, &s->trace};
	if (!s->text[PATTERN])
		return WEIR_OK;
	*source = (struct source){pattern_next, &s->pattern};
	return pattern_open(&s->pattern, s->text[PATTERN], first->limit,
	                    first->declared->options.rate.count, &s->replay.fields, error);
}

/* Opens a file for output; called before the replay. Refuses to overwrite the log. */
static int open_output(const struct simulation *s, const char *path, FILE **out,
                       struct weir_error *error)
{
	struct stat file, log;

	if (s->text[TRACE] && stat(path, &file) == 0 && fstat(s->trace.lines.fd, &log) == 0 &&
	    S_ISREG(file.st_mode) && file.st_ino == log.st_ino && file.st_dev == log.st_dev)
		return error_set(error, WEIR_EINVAL, "%s: expected a file to write to, found the log",
		                 path);
	*out = fopen(path, "wbe");
	return *out ? WEIR_OK
	            : error_set(error, WEIR_EIO, "%s: expected a file to write to, found: %m", path);
}

static int open_outputs(struct simulation *s, struct weir_error *error)
{
	const char *decisions = s->text[DECISIONS], *page = s->text[HTML];
	int status = WEIR_OK;

	if (decisions && strcmp(decisions, "-") == 0)
		s->replay.decisions = fdopen(dup(STDOUT_FILENO), "we");
	else if (decisions)
		status = open_output(s, decisions, &s->replay.decisions, error);
	if (status == WEIR_OK && decisions && !s->replay.decisions)
		status = error_set(error, WEIR_EIO, "can't write the decisions: %m");
	if (status == WEIR_OK && page)
		status = open_output(s, page, &s->page, error);
	return status;
}

/* Writes and closes the page. */
static int write_page(struct simulation *s, const struct buffer *page, struct weir_error *error)
{
	bool written = fwrite(page->data, 1, page->len, s->page) == page->len;

	if (fclose(s->page) != 0)
		written = false;
	s->page = NULL;
	return written ? WEIR_OK
	               : error_set(error, WEIR_EIO, "%s: can't write the page: %m", s->text[HTML]);
}

static int write_reports(struct simulation *s, struct weir_error *error)
{
	const struct report report = {
	    .replay = &s->replay,
	    .source = s->text[TRACE] ? s->text[TRACE] : s->text[PATTERN],
	    .malformed = s->trace.malformed,
	    .as_rules = s->scenarios[0].own == NULL,
	    .suggestion = s->text[SUGGEST] ? &s->suggest.found : NULL,
	};
	const char *no_color = getenv("NO_COLOR");
	struct buffer out = {0}, page = {0};
	int status = WEIR_OK;

	/* The page first: it needs narrower intervals, and merged intervals can't be split again. */
	if (s->page) {
		replay_widen(&s->replay, report_html_intervals(&s->replay));
		report_html(&report, &page);
	}
	replay_widen(&s->replay, TIMELINE_SHOWN);
	if (s->text[JSON])
		report_json(&report, &out);
	else
		report_text(&report, !isatty(STDOUT_FILENO) || (no_color && *no_color), &out);
	if (out.failed || page.failed)
		status = error_set(error, WEIR_ENOMEM, "out of memory");
	if (status == WEIR_OK && s->page)
		status = write_page(s, &page, error);
	if (status == WEIR_OK &&
	    (fwrite(out.data, 1, out.len, stdout) != out.len || fflush(stdout) != 0))
		status = error_set(error, WEIR_EIO, "can't write the result: %m");
	buffer_free(&out);
	buffer_free(&page);
	return status;
}

static int replay_and_report(struct simulation *s, struct weir_error *error)
{
	struct source source;
	int status;

	s->limits.settings.text[SETTING_CAPACITY] = s->text[CAPACITY];
	status = simulate_limits_read(&s->limits, s->text[PATTERN], error) ?:
	             open_log(s, error) ?: open_scenarios(s, error) ?:
	             open_source(s, &source, error) ?: open_outputs(s, error);
	if (status == WEIR_OK && isatty(STDERR_FILENO)) {
		s->replay.progress = show_progress;
		s->replay.progress_context = s;
		s->trace.before_report = CLEAR_LINE;
	}
	if (status == WEIR_OK)
		status = replay_run(&s->replay, &source, error);
	if (s->replay.progress)
		fputs(CLEAR_LINE, stderr);
	if (status == WEIR_OK && s->replay.requests == 0)
		status =
		    error_set(error, WEIR_ESYNTAX, "%s: expected requests, found none", s->text[TRACE]);
	if (status == WEIR_OK)
		status = write_reports(s, error);
	if (s->replay.decisions && fclose(s->replay.decisions) != 0 && status == WEIR_OK)
		status = error_set(error, WEIR_EIO, "%s: %m", s->text[DECISIONS]);
	if (s->page)
		fclose(s->page);
	return status;
}

static int run_simulate(int argc, char **argv)
{
	struct simulation s = {0};
	struct weir_error error = {0};
	int result = simulate_limits_open(&s.limits, argc) == WEIR_OK
	                 ? set_flags(&s, argc, argv)
	                 : command_fail("simulate", "out of memory");

	if (result == 0 && replay_and_report(&s, &error) != WEIR_OK) {
		if (*error.message)
			command_fail("simulate", "%s", error.message);
		result = EXIT_FAILED;
	}
	trace_close(&s.trace);
	suggest_close(&s.suggest);
	for (size_t i = 0; i < s.replay.scenario_count; i++)
		scenario_close(&s.scenarios[i]);
	free(s.scenarios);
	simulate_limits_close(&s.limits);
	return result;
}

const struct command command_simulate = {
    .name = "simulate",
    .summary = "Replay a log, or made-up traffic, through limits.",
    .uses = {"-c FILE... --trace FILE [FLAG]...", "--try 'NAME: {...}' --trace FILE [FLAG]...",
             "--suggest ALGORITHM/PERIOD --trace FILE [FLAG]...",
             "[-c FILE] --pattern NAME [FLAG]..."},
    .exits = "0, 1 if it can't replay the log, 2 for a wrong argument",
    COMMAND_FLAGS(flags),
    .run = run_simulate,
};
