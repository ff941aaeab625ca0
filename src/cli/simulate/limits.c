/*
 * limits.c: reads the limits that `weir simulate` tries: from configuration files, from
 * --try, or one of each algorithm for made-up traffic.
 */
#include "cli/simulate/limits.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/error.h"
#include "cli/command.h"
#include "simulate/input/traffic_pattern.h"

#define TEXT_BEFORE                                                                                \
	"limits: {\n" /* on a line of its own, so that columns of errors are those of the text */
#define LINES_BEFORE 1

int simulate_limits_open(struct simulate_limits *limits, int argc)
{
	size_t capacity = (size_t)argc;

	limits->names = calloc(capacity, sizeof *limits->names);
	limits->tried = calloc(capacity, sizeof *limits->tried);
	limits->added_configs = calloc(capacity, sizeof *limits->added_configs);
	return limits->names && limits->tried && limits->added_configs ? WEIR_OK : WEIR_ENOMEM;
}

void simulate_limits_close(struct simulate_limits *limits)
{
	weir_config_close(limits->config);
	for (size_t i = 0; i < limits->added_count; i++)
		weir_config_close(limits->added_configs[i]);
	free(limits->added_configs);
	free(limits->tried);
	free(limits->names);
}

/* Makes one limit of each algorithm, for made-up traffic. */
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

/* Called for each remark about a file. Prints errors, and sets *context, a bool, if there was one.
 */
static void print_file_error(void *context, const struct weir_config_remark *remark)
{
	bool *printed = context;
	struct buffer line = {0};

	if (!remark->is_error)
		return;
	log_add_remark(&line, remark);
	buffer_add(&line, "", 1);
	command_fail("simulate", "%s", line.failed ? remark->text : line.data);
	buffer_free(&line);
	*printed = true;
}

/*
 * Reads the configuration files. Without any, the limits are those of --try alone, none yet
 * (may_be_none), or made for the pattern.
 */
static int read_files(struct simulate_limits *limits, bool has_pattern, struct weir_error *error)
{
	struct settings *settings = &limits->settings;
	bool printed = false;
	int status;

	if (settings->file_count > SETTINGS_FILES_MAX)
		return error_set(error, WEIR_EINVAL, "expected at most %d files, found more",
		                 SETTINGS_FILES_MAX);
	if (settings->file_count > 0) {
		status = weir_config_read_files(&(struct weir_config_files){.paths = settings->files,
		                                                            .count = settings->file_count,
		                                                            .say = print_file_error,
		                                                            .context = &printed},
		                                &limits->config, error);
		/* printed errors have no message for the caller */
		return printed ? error_set(error, status, "%s", "") : status;
	}
	if (limits->tried_count > 0 || limits->may_be_none) {
		limits->config = weir_private_config_new();
		return limits->config ? WEIR_OK : error_set(error, WEIR_ENOMEM, "out of memory");
	}
	if (has_pattern)
		return read_pattern_limits(&limits->config, error);
	return error_set(error, WEIR_EINVAL,
	                 "expected -c FILE or --try 'NAME: {...}' with the limits to try");
}

/*
 * Reads the text of a flag, "NAME: {…}", as a configuration with one limit. Errors name the flag,
 * and the line and column in its text.
 */
int simulate_limit_read(const char *flag, const char *text, weir_config **out,
                        struct weir_error *error)
{
	struct buffer yaml = {0};
	struct weir_error inner = {0};
	int status;

	buffer_printf(&yaml, TEXT_BEFORE "%s\n}\n", text);
	status = yaml.failed ? error_set(&inner, WEIR_ENOMEM, "out of memory")
	                     : weir_config_read_yaml(yaml.data, yaml.len, NULL, out, &inner);
	buffer_free(&yaml);
	if (status != WEIR_OK && inner.line > LINES_BEFORE)
		return error_set(error, status, "%s:%u:%u: error: %s", flag, inner.line - LINES_BEFORE,
		                 inner.column, inner.message);
	if (status != WEIR_OK)
		return error_set(error, status, "%s: %s", flag, inner.message);
	if ((*out)->limit_count == 1 && (*out)->rule_count == 0)
		return WEIR_OK;
	weir_config_close(*out);
	*out = NULL;
	return error_set(error, WEIR_EINVAL, "%s: expected one limit, 'NAME: {...}', found '%.64s'",
	                 flag, text);
}

/*
 * Appends the limit to those of the files. If --limit restricts the simulation to limits by name,
 * appends its name, too.
 */
int simulate_limits_add(struct simulate_limits *limits, const char *flag, const char *text,
                        struct weir_error *error)
{
	struct weir_config *config = limits->config;
	size_t count = config->limit_count;
	struct rules_limit *grown = arena_array(&config->arena, count + 1, sizeof *grown);
	weir_config **added = &limits->added_configs[limits->added_count];
	int status = grown ? simulate_limit_read(flag, text, added, error)
	                   : error_set(error, WEIR_ENOMEM, "out of memory");

	if (status != WEIR_OK)
		return status;
	limits->added_count++; /* remains open, since the limit below refers to it */
	grown[count] = (*added)->limits[0];
	for (size_t i = 0; i < count; i++) {
		grown[i] = config->limits[i];
		if (strcmp(grown[i].options.name, grown[count].options.name) == 0)
			return error_set(error, WEIR_EINVAL,
			                 "%s: expected a name that no other limit has, found '%.64s'", flag,
			                 grown[count].options.name);
	}
	if (limits->name_count > 0)
		limits->names[limits->name_count++] = grown[count].options.name;
	config->limits = grown;
	config->limit_count = count + 1;
	return WEIR_OK;
}

/* `otherwise` is the store of limits that name none. */
static void warn_of_shared_stores(const struct weir_config *config, const char *otherwise)
{
	const struct rules_limit *first = NULL;
	size_t count = 0;

	for (size_t i = 0; i < config->limit_count; i++) {
		if (!rules_store(&config->limits[i], otherwise))
			continue;
		first = first ?: &config->limits[i];
		count++;
	}
	if (count == 1)
		fprintf(
		    stderr,
		    "weir simulate: '%.64s' counts in memory here, as one server alone does, and not at "
		    "its Redis\n",
		    first->options.name);
	else if (count > 1)
		fprintf(stderr,
		        "weir simulate: %zu limits, such as '%.64s', count in memory here, as one server "
		        "alone does, and not at their Redis\n",
		        count, first->options.name);
}

int simulate_limits_read(struct simulate_limits *limits, bool has_pattern, struct weir_error *error)
{
	struct settings_plan plan;
	int status;

	settings_add_environment(&limits->settings, getenv);
	status = read_files(limits, has_pattern, error);
	for (size_t i = 0; i < limits->tried_count && status == WEIR_OK; i++)
		status = simulate_limits_add(limits, "--try", limits->tried[i], error);
	if (status == WEIR_OK)
		status = settings_resolve(&limits->settings, limits->config, &plan, error);
	if (status == WEIR_OK)
		warn_of_shared_stores(limits->config, plan.redis);
	limits->capacity =
	    status == WEIR_OK && plan.capacity ? plan.capacity : SETTINGS_CAPACITY_DEFAULT;
	return status;
}
