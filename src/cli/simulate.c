#include <getopt.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/error.h"
#include "cli/command.h"
#include "rules/model.h"
#include "server/settings.h"
#include "simulate/leave_out.h"
#include "simulate/pattern.h"
#include "simulate/report.h"
#include "simulate/trace.h"

#define EXIT_TROUBLE 1
#define BAR          30
#define CLEAR_LINE   "\r\033[K"

enum { TRACE, FORMAT, PATTERN, LIMIT, KEY, CAPACITY, HTML, JSON, DECISIONS, HELP, FLAG_COUNT };

static const struct {
	const char *name, *value, *help;
} flags[FLAG_COUNT] = {
    [TRACE] = {"trace", "FILE", "a log; - is standard input"},
    [FORMAT] = {"format", "NAME", FORMAT_NAMES ": guessed from the first line"},
    [PATTERN] = {"pattern", "NAME", "instead, made up traffic: " PATTERN_NAMES},
    [LIMIT] = {"limit", "NAME...", "these by themselves, side by side, and not the rules"},
    [KEY] = {"key", "FIELD", "of every limit: that of its first rule, or ip"},
    [CAPACITY] = {"capacity", "N", "keys of a table: the file's, or 1000000"},
    [HTML] = {"html", "FILE", "a page with charts to zoom into"},
    [JSON] = {"json", NULL, "one object instead of a table"},
    [DECISIONS] = {"decisions", "FILE", "a JSON line for each request and limit"},
    [HELP] = {"help", NULL, "this"},
};

struct simulation {
	const char *text[FLAG_COUNT]; /* as given; NULL: not given */
	struct settings settings;
	const char **limits;
	size_t limit_count;

	weir_config *config;
	uint64_t capacity;
	struct lane *lanes;
	struct replay replay;
	struct trace trace;
	FILE *page; /* NULL: not wanted */
	struct pattern pattern;
};

static int help(void)
{
	puts("usage: weir simulate -c FILE... --trace FILE [OPTION]...\n"
	     "       weir simulate [-c FILE] --pattern NAME [OPTION]...\n");
	for (size_t i = 0; i < FLAG_COUNT; i++)
		printf("  --%-9s %-8s %s\n", flags[i].name, flags[i].value ? flags[i].value : "",
		       flags[i].help);
	return 0;
}

static int set_flags(struct simulation *s, int argc, char **argv, struct weir_error *error)
{
	struct option options[FLAG_COUNT + 1] = {0};
	int option;

	for (int i = 0; i < FLAG_COUNT; i++)
		options[i] = (struct option){
		    flags[i].name, flags[i].value ? required_argument : no_argument, NULL, 256 + i};
	while ((option = getopt_long(argc, argv, "c:", options, NULL)) != -1) {
		if (option == '?')
			return error_set(error, WEIR_EINVAL, "see weir simulate --help");
		if (option == 'c')
			settings_add(&s->settings, SETTING_CONFIG, optarg);
		else
			s->text[option - 256] = optarg ? optarg : "";
		if (option == 256 + LIMIT)
			s->limits[s->limit_count++] = optarg;
	}
	/* --limit a b is --limit a --limit b. */
	for (; s->limit_count > 0 && optind < argc; optind++)
		s->limits[s->limit_count++] = argv[optind];
	if (optind < argc)
		return command_no_option(argv[optind], error);
	if (!s->text[HELP] && !s->text[TRACE] == !s->text[PATTERN])
		return error_set(error, WEIR_EINVAL, "expected --trace or --pattern, found %s",
		                 s->text[TRACE] ? "both" : "neither");
	return WEIR_OK;
}

static int read_pattern_limits(struct weir_config **config, struct weir_error *error)
{
	struct buffer yaml = {0};
	int status;

	pattern_add_limits(&yaml);
	status = yaml.failed ? error_set(error, WEIR_ENOMEM, "out of memory")
	                     : weir_config_read_yaml(yaml.data, yaml.len, NULL, config, error);
	buffer_free(&yaml);
	return status;
}

static void say_error(void *context, const struct weir_config_remark *remark)
{
	bool *said = context;
	struct buffer line = {0};

	if (!remark->is_error)
		return;
	log_add_remark(&line, remark);
	buffer_add(&line, "", 1);
	command_fail("simulate", "%s", line.failed ? remark->text : line.data);
	buffer_free(&line);
	*said = true;
}

/* Errors of files are told at once, and `error` has no message then. */
static int read_files(struct simulation *s, struct weir_error *error)
{
	struct settings *settings = &s->settings;
	bool said = false;
	int status;

	if (settings->file_count > SETTINGS_FILES_MAX)
		return error_set(error, WEIR_EINVAL, "expected at most %d files, found more",
		                 SETTINGS_FILES_MAX);
	if (settings->file_count > 0)
		status = weir_config_read_files(
		    &(struct weir_config_files){.paths = settings->files,
		                                .count = settings->file_count,
		                                .say = say_error,
		                                .context = &said},
		    &s->config, error);
	else if (s->text[PATTERN])
		status = read_pattern_limits(&s->config, error);
	else
		return error_set(error, WEIR_EINVAL, "expected -c FILE with the limits to try");
	return said ? error_set(error, status, "%s", "") : status;
}

static int read_config(struct simulation *s, struct weir_error *error)
{
	struct settings_plan plan;
	int status;

	s->settings.text[SETTING_CAPACITY] = s->text[CAPACITY];
	settings_add_environment(&s->settings, getenv);
	status = read_files(s, error) ?: settings_resolve(&s->settings, s->config, &plan, error);
	s->capacity = status == WEIR_OK && plan.capacity ? plan.capacity : 1000000;
	return status;
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

/* The rules; or each limit by itself where limits or a key are named, or there are no rules. */
static int open_lanes(struct simulation *s, struct weir_error *error)
{
	bool as_rules = s->limit_count == 0 && !s->text[KEY] && s->config->rule_count > 0;
	size_t n = as_rules ? 1 : s->limit_count ? s->limit_count : s->config->limit_count;
	int status = WEIR_OK;

	if (s->config->limit_count == 0 && !(as_rules && s->text[TRACE]))
		return error_set(error, WEIR_EINVAL, "expected limits in the file, found none");
	if (s->text[KEY] && format_target(&s->replay.fields, slice_of(s->text[KEY])) != TARGET_NONE)
		return error_set(error, WEIR_EINVAL, "--key: expected an attribute, found '%s'",
		                 s->text[KEY]);
	s->replay.lanes = s->lanes = calloc(n, sizeof *s->lanes);
	if (!s->lanes)
		return error_set(error, WEIR_ENOMEM, "out of memory");
	for (size_t i = 0; i < n && status == WEIR_OK; i++) {
		struct lane *lane = &s->lanes[s->replay.lane_count++];
		size_t limit = i;

		if (s->limit_count > 0)
			status = limit_index(s->config, s->limits[i], &limit, error);
		for (size_t j = 0; j < i && status == WEIR_OK && s->limit_count > 0; j++)
			if (strcmp(s->limits[i], s->limits[j]) == 0)
				status = error_set(error, WEIR_EINVAL,
				                   "--limit: expected each limit once, found '%.64s' twice",
				                   s->limits[i]);
		if (status == WEIR_OK)
			status = as_rules ? lane_open_rules(lane, s->config, s->capacity, error)
			                  : lane_open_limit(lane, s->config, limit, s->text[KEY], s->capacity,
			                                    error);
		if (status == WEIR_OK)
			status = lane_fields(lane, &s->replay.fields, error);
	}
	return status;
}

static int open_source(struct simulation *s, struct source *source, struct weir_error *error)
{
	const struct tally *first = &s->lanes[0].tallies[0];
	const struct format *format = NULL;

	if (s->text[PATTERN]) {
		*source = (struct source){pattern_next, &s->pattern};
		return pattern_open(&s->pattern, s->text[PATTERN], first->limit,
		                    first->declared->options.rate.count, &s->replay.fields, error);
	}
	*source = (struct source){trace_next, &s->trace};
	if (s->text[FORMAT] && !(format = format_named(s->text[FORMAT])))
		return error_set(error, WEIR_EINVAL, "--format: expected " FORMAT_NAMES ", found '%.40s'",
		                 s->text[FORMAT]);
	return trace_open(&s->trace, s->text[TRACE], format, &s->replay.fields, stderr, error);
}

static void show_progress(void *context, uint64_t requests)
{
	const struct simulation *s = context;
	uint64_t percent = s->trace.size ? s->trace.lines.consumed * 100 / s->trace.size : 0;
	int bars = (int)(u64_min(percent, 100) * BAR / 100);
	struct winsize window = {0};

	fputc('\r', stderr);
	/* A line that wraps can't be drawn over. */
	ioctl(STDERR_FILENO, TIOCGWINSZ, &window);
	if (s->trace.size && (window.ws_col == 0 || window.ws_col >= 2 * BAR))
		fprintf(stderr, "[%.*s%*s]", bars, "##############################", BAR - bars, "");
	if (s->trace.size)
		fprintf(stderr, " %3llu%%", (unsigned long long)percent);
	fprintf(stderr, " %llu requests ", (unsigned long long)requests);
}

/* Before the replay, which should not be for nothing; and never over the log itself. */
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
		status = error_set(error, WEIR_EIO, "expected room for the decisions, found: %m");
	if (status == WEIR_OK && page)
		status = open_output(s, page, &s->page, error);
	return status;
}

/* Closes it, too. */
static int write_page(struct simulation *s, const struct buffer *page, struct weir_error *error)
{
	bool written = fwrite(page->data, 1, page->len, s->page) == page->len;

	if (fclose(s->page) != 0)
		written = false;
	s->page = NULL;
	return written ? WEIR_OK
	               : error_set(error, WEIR_EIO, "%s: expected room for the page, found: %m",
	                           s->text[HTML]);
}

static int write_reports(struct simulation *s, struct weir_error *error)
{
	const struct report report = {
	    .replay = &s->replay,
	    .source = s->text[TRACE] ? s->text[TRACE] : s->text[PATTERN],
	    .malformed = s->trace.malformed,
	    .as_rules = s->lanes[0].own == NULL,
	};
	const char *no_color = getenv("NO_COLOR");
	struct buffer out = {0}, page = {0};
	int status = WEIR_OK;

	if (s->text[JSON])
		report_json(&report, &out);
	else
		report_text(&report, !isatty(STDOUT_FILENO) || (no_color && *no_color), &out);
	if (s->page)
		report_html(&report, &page);
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

static int run(struct simulation *s, struct weir_error *error)
{
	struct source source;
	int status = read_config(s, error) ?:
	             leave_out(s->config, s->limits, s->limit_count, stderr, error) ?:
	             open_lanes(s, error) ?: open_source(s, &source, error) ?: open_outputs(s, error);

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

int command_simulate(int argc, char **argv)
{
	struct simulation s = {0};
	struct weir_error error = {0};
	int result = 0;

	s.limits = calloc((size_t)argc, sizeof *s.limits);
	if (!s.limits) {
		result = command_fail("simulate", "out of memory");
	} else if (set_flags(&s, argc, argv, &error) != WEIR_OK) {
		result = command_fail("simulate", "%s", error.message);
	} else if (s.text[HELP]) {
		result = help();
	} else if (run(&s, &error) != WEIR_OK) {
		if (*error.message)
			command_fail("simulate", "%s", error.message);
		result = EXIT_TROUBLE;
	}
	trace_close(&s.trace);
	for (size_t i = 0; i < s.replay.lane_count; i++)
		lane_close(&s.lanes[i]);
	free(s.lanes);
	weir_config_close(s.config);
	free(s.limits);
	return result;
}
