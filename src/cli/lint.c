/* lint.c: the command `weir lint`: checks rule files, and prints one in Weir's own language. */
#include <stdio.h>
#include <string.h>

#include <weir/rules.h>

#include "base/number.h"
#include "base/error.h"
#include "cli/command.h"
#include "engine/engine.h"
#include "readers/yaml/print.h"
#include "rules/model.h"
#include "server/admin/event_log.h"
#include "server/config/config.h"
#include "server/config/config_warnings.h"
#include "server/config/settings.h"

/* Prints the capacity of each limit that has a table of its own, as the server would make it. */
static void print_capacities(const char *path, const weir_engine *engine, uint64_t capacity)
{
	for (size_t i = 0; i < engine_limit_count(engine); i++) {
		const struct weir_limit *limit = engine_limit_at(engine, i);
		const struct weir_limit *counted_here = limit->local ? limit->local : limit;
		struct store_capacity own = store_capacity_planned(capacity, &counted_here->algo);
		char size[SIZE_TEXT_MAX];

		format_size(size, own.bytes, true);
		if (!own.is_shared)
			printf("%s: limit \"%s\": capacity for %llu keys%s, at most %s\n", path, limit->name,
			       (unsigned long long)own.keys,
			       limit->local ? " while its Redis is unavailable" : "", size);
	}
}

/* A check of files that make one configuration together. */
struct check {
	const char *const *paths;
	size_t count;
	bool is_strict, to_yaml, is_good;
};

static void print_ok(const struct check *check)
{
	for (size_t i = 0; i < check->count; i++)
		printf("%s: ok\n", check->paths[i]);
}

/* Prints an error or warning, and records whether the files are still good. */
static void print_remark(void *context, const struct weir_config_remark *remark)
{
	struct check *check = context;
	struct weir_config_remark shown = *remark;
	struct buffer line = {0};

	if (!shown.path)
		shown.path = check->paths[0];
	log_add_remark(&line, &shown);
	buffer_add(&line, "\n", 1);
	fwrite(line.data, 1, line.len, stderr);
	buffer_free(&line);
	check->is_good = check->is_good && !check->is_strict && !remark->is_error;
}

/* Opens what the server would open, since a well-formed configuration may still be impossible. */
static int check_config(struct check *check, const weir_config *config, struct weir_error *error)
{
	struct stores stores = {0};
	weir_engine *engine = NULL;
	weir_table *table = NULL;
	struct users *users = NULL;
	struct tls_context *tls = NULL;
	struct settings_plan plan;
	int status;

	status = settings_resolve(&(struct settings){0}, config, &plan, error) ?:
	         weir_table_open(&(struct weir_table_options){.capacity = 1}, &table, error) ?:
	         stores_open_main(&stores, plan.redis, config, table, error) ?:
	         server_config_engine(config, table, &stores, &engine, error) ?:
	         users_open(&users, config, engine, NULL, error) ?:
	         server_config_tls(config, &tls, error);
	if (status == WEIR_OK) {
		config_warnings_check(config, engine, tls, &plan, print_remark, check);
		if (!check->to_yaml)
			print_capacities(check->paths[0], engine,
			                 plan.capacity ? plan.capacity : SETTINGS_CAPACITY_DEFAULT);
	}
	tls_context_close(tls);
	users_close(users);
	weir_engine_close(engine);
	stores_close(&stores);
	weir_table_close(table);
	return status;
}

/* Prints the configuration in Weir's own language, without settings that have their defaults. */
static int print_as_yaml(const weir_config *config, struct weir_error *error)
{
	weir_config *defaults = weir_private_config_new();
	struct buffer out = {0};
	int status = WEIR_ENOMEM;

	if (defaults) {
		yaml_print(config, defaults, &out);
		status = out.failed ? WEIR_ENOMEM : WEIR_OK;
	}
	if (status == WEIR_OK)
		fwrite(out.data ? out.data : "", 1, out.len, stdout);
	else
		error_set(error, status, "%s", weir_strerror(status));
	buffer_free(&out);
	weir_config_close(defaults);
	return status;
}

/* Returns whether the files are valid; prints errors and warnings. */
static bool check_files(struct check *check)
{
	const struct weir_config_files files = {
	    .paths = check->paths, .count = check->count, .say = print_remark, .context = check};
	struct weir_error error = {0};
	weir_config *config = NULL;
	int status;

	check->is_good = true;
	if (weir_config_read_files(&files, &config, &error) != WEIR_OK)
		return false; /* print_remark has printed the errors */
	status = check_config(check, config, &error);
	if (status == WEIR_OK && check->to_yaml && check->is_good)
		status = print_as_yaml(config, &error);
	else if (status == WEIR_OK && check->is_good)
		print_ok(check);
	if (status != WEIR_OK)
		print_remark(check, &(struct weir_config_remark){.path = config->file,
		                                                 .line = error.line,
		                                                 .column = error.column,
		                                                 .is_error = true,
		                                                 .text = error.message});
	weir_config_close(config);
	return check->is_good;
}

/* Checks each file as a configuration of its own. Returns the exit status. */
static int check_each(struct check *check, char *const *paths, int count)
{
	int result = 0;

	for (int i = 0; i < count; i++) {
		check->paths = (const char *const *)&paths[i];
		check->count = 1;
		if (!check_files(check))
			result = 1;
	}
	return result;
}

enum { CONFIG, STRICT, TO };

static const struct flag flags[] = {
    [CONFIG] = {"config", "FILE", "check these files together, as one configuration", 'c', NULL},
    [STRICT] = {"strict", NULL, "exit with 1 on a warning, too", 0, NULL},
    [TO] = {"to", "yaml", "print the file in Weir's own language", 0, NULL},
};

static int run_lint(int argc, char **argv)
{
	struct settings settings = {0};
	struct arguments arguments;
	struct check check = {0};
	int flag;

	arguments_begin(&arguments, &command_lint, argc, argv);
	while ((flag = arguments_next(&arguments)) >= 0) {
		if (flag == CONFIG)
			settings_add(&settings, SETTING_CONFIG, arguments.value);
		else if (flag == STRICT)
			check.is_strict = true;
		else if (strcmp(arguments.value, "yaml") == 0)
			check.to_yaml = true;
		else
			return command_fail("lint", "--to: expected yaml, found '%s'", arguments.value);
	}
	if (settings.file_count > SETTINGS_FILES_MAX)
		return command_fail("lint", "expected at most %d files, found more", SETTINGS_FILES_MAX);
	if ((optind == argc) == (settings.file_count == 0))
		return command_fail("lint", "expected FILE... or -c FILE, found %s",
		                    optind == argc ? "neither" : "both");
	if (check.to_yaml && argc - optind > 1)
		return command_fail("lint", "--to: expected one FILE, or -c FILE, found %d", argc - optind);
	if (settings.file_count == 0)
		return check_each(&check, argv + optind, argc - optind);
	check.paths = settings.files;
	check.count = settings.file_count;
	return check_files(&check) ? 0 : 1;
}

const struct command command_lint = {
    .name = "lint",
    .summary = "Check rule files, or print one in Weir's own language.",
    .uses = {"[--strict] FILE...", "[--strict] -c FILE...", "--to yaml FILE"},
    .examples = {"weir lint weir.yaml", "weir lint --strict -c weir.yaml -c koala.conf"},
    .exits = "0 if all is well, 1 on errors (with --strict on warnings), 2 for a wrong argument",
    COMMAND_FLAGS(flags),
    .run = run_lint,
};
