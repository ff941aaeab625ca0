#include <getopt.h>
#include <stdio.h>

#include <weir/rules.h>

#include "cli/command.h"
#include "engine/engine.h"
#include "rules/model.h"
#include "server/advice.h"
#include "server/config.h"
#include "server/log.h"
#include "server/settings.h"

/* How many keys each limit has room for that has a table of its own, as a server would make it. */
static void say_room(const char *path, const weir_engine *engine, uint64_t capacity)
{
	for (size_t i = 0; i < engine_limit_count(engine); i++) {
		const struct weir_limit *limit = engine_limit_at(engine, i);
		const struct weir_limit *here = limit->local ? limit->local : limit;
		struct store_capacity room = store_capacity_planned(capacity, &here->algo);

		if (!room.is_shared)
			printf("%s: limit \"%s\": room for %llu keys%s, %llu bytes at most\n", path, limit->name,
			       (unsigned long long)room.keys, limit->local ? " while its Redis is away" : "",
			       (unsigned long long)room.bytes);
	}
}

/* A file, and whether it is as good as was asked for. */
struct check {
	const char *path;
	bool strict, good;
};

static void say_warning(void *context, const struct rules_warning *warning)
{
	struct check *check = context;

	fprintf(stderr, "%s:%u:%u: warning: %s\n", check->path, warning->line, warning->column,
	        warning->text);
	check->good = check->good && !check->strict;
}

/* As the server would: what a file asks for can be well formed and impossible. */
static int check_config(struct check *check, const weir_config *config, struct weir_error *error)
{
	struct stores stores = {0};
	weir_engine *engine = NULL;
	weir_table *table = NULL;
	struct settings_plan plan;
	int status;

	status = settings_resolve(&(struct settings){0}, config, &plan, error) ?:
	         weir_table_open(&(struct weir_table_options){.capacity = 1}, &table, error) ?:
	         stores_open_main(&stores, plan.redis, config, table, error) ?:
	         server_config_engine(config, table, &stores, &engine, error);
	if (status == WEIR_OK) {
		for (const struct rules_warning *w = config->warnings; w; w = w->next)
			say_warning(check, w);
		advice_give(config, engine, &plan, say_warning, check);
		say_room(check->path, engine, plan.capacity ? plan.capacity : SETTINGS_CAPACITY_DEFAULT);
	}
	weir_engine_close(engine);
	stores_close(&stores);
	weir_table_close(table);
	return status;
}

static void say_error(const char *path, const struct weir_error *error)
{
	struct buffer line = {0};

	log_add_error(&line, path, error);
	buffer_add(&line, "\n", 1);
	fwrite(line.data, 1, line.len, stderr);
	buffer_free(&line);
}

/* Whether there is nothing to object to. */
static bool check_file(const char *path, bool strict)
{
	struct check check = {path, strict, true};
	struct weir_error error = {0};
	weir_config *config = NULL;

	if (server_config_read(path, &config, &error) != WEIR_OK ||
	    check_config(&check, config, &error) != WEIR_OK) {
		say_error(path, &error);
		check.good = false;
	}
	weir_config_close(config);
	return check.good;
}

int command_lint(int argc, char **argv)
{
	static const struct option options[] = {{"strict", no_argument, NULL, 's'}, {0}};
	bool strict = false;
	int option, result = 0;

	while ((option = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (option == '?')
			return EXIT_USAGE;
		strict = true;
	}
	if (optind == argc) {
		fputs("weir lint: expected FILE...\n", stderr);
		return EXIT_USAGE;
	}
	for (int i = optind; i < argc; i++) {
		if (check_file(argv[i], strict))
			printf("%s: ok\n", argv[i]);
		else
			result = 1;
	}
	return result;
}
