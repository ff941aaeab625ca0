#include <stdio.h>

#include <weir/rules.h>

#include "cli/command.h"
#include "server/config.h"
#include "server/log.h"
#include "server/settings.h"

/* As the server would: what a file asks for can be well formed and impossible. */
static int check_file(const char *path, struct weir_error *error)
{
	weir_config *config = NULL;
	weir_engine *engine = NULL;
	weir_table *table = NULL;
	struct settings_plan plan;
	int status;

	status = server_config_read(path, &config, error);
	if (status == WEIR_OK)
		status = settings_resolve(&(struct settings){0}, config, &plan, error);
	if (status == WEIR_OK)
		status = weir_table_open(&(struct weir_table_options){.capacity = 1}, &table, error);
	if (status == WEIR_OK)
		status = weir_engine_open(config, table, &engine, error);
	weir_engine_close(engine);
	weir_table_close(table);
	weir_config_close(config);
	return status;
}

static void say(const char *path, const struct weir_error *error)
{
	struct buffer line = {0};

	log_add_error(&line, path, error);
	buffer_add(&line, "\n", 1);
	fwrite(line.data, 1, line.len, stderr);
	buffer_free(&line);
}

int command_lint(int argc, char **argv)
{
	int result = 0;

	if (argc < 2) {
		fputs("weir lint: expected FILE...\n", stderr);
		return EXIT_USAGE;
	}
	for (int i = 1; i < argc; i++) {
		struct weir_error error = {0};

		if (check_file(argv[i], &error) == WEIR_OK) {
			printf("%s: ok\n", argv[i]);
			continue;
		}
		say(argv[i], &error);
		result = 1;
	}
	return result;
}
