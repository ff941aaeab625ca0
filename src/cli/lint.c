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

/* Files that make one configuration, and whether it is as good as was asked for. */
struct check {
	const char *const *paths;
	size_t count;
	bool strict, good;
};

static void say(void *context, const struct weir_config_remark *remark)
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
	check->good = check->good && !check->strict && !remark->is_error;
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
		advice_give(config, engine, &plan, say, check);
		say_room(check->paths[0], engine, plan.capacity ? plan.capacity : SETTINGS_CAPACITY_DEFAULT);
	}
	weir_engine_close(engine);
	stores_close(&stores);
	weir_table_close(table);
	return status;
}

/* Whether there is nothing to object to. */
static bool check_files(struct check *check)
{
	const struct weir_config_files files = {
	    .paths = check->paths, .count = check->count, .say = say, .context = check};
	struct weir_error error = {0};
	weir_config *config = NULL;

	check->good = true;
	if (weir_config_read_files(&files, &config, &error) != WEIR_OK)
		check->good = false;
	else if (check_config(check, config, &error) != WEIR_OK)
		say(check, &(struct weir_config_remark){config->file, error.line, error.column, true,
		                                        error.message, {0}});
	weir_config_close(config);
	return check->good;
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
		struct check check = {(const char *const *)&argv[i], 1, strict, true};

		if (check_files(&check))
			printf("%s: ok\n", argv[i]);
		else
			result = 1;
	}
	return result;
}
