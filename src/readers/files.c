/*
 * files.c: reads one configuration from texts and files in any language.
 *
 * The YAML file is read first, wherever it stands among the files, because its settings apply to
 * the others, such as Koala's. The rules are in the order of the files.
 */
#include <sys/stat.h>

#include "base/error.h"
#include "base/os/read_file.h"
#include "readers/koala/koala.h"
#include "readers/yaml/read.h"
#include "rules/check.h"
#include "rules/remark.h"

#define FILE_MAX ((size_t)16 << 20)

static int no_memory(struct weir_error *error)
{
	return error_set(error, WEIR_ENOMEM, "%s", weir_strerror(WEIR_ENOMEM));
}

static bool is_koala(const char *path)
{
	static const char end[] = ".conf";
	size_t len = strlen(path), end_len = sizeof end - 1;

	return len > end_len && strcmp(path + len - end_len, end) == 0;
}

/* A text in one language or the other. ENOMEM, or EINVAL and others where there are remarks. */
static int read_source(struct weir_config *config, const struct source *source)
{
	size_t errors = config->remarks.errors;
	struct weir_error error = {0};
	int status;

	if (source->text.len > FILE_MAX)
		status = error_set(&error, WEIR_ELONG, "expected at most 16 MiB, found more");
	else if (source->file && is_koala(source->file))
		status = koala_read(config, source);
	else
		status = yaml_read(config, source, &error);
	if (status != WEIR_OK && status != WEIR_ENOMEM && *error.message &&
	    remark_add(config, REMARK_ERROR(source->file, error.line, error.column), "%s",
	               error.message) != WEIR_OK)
		return WEIR_ENOMEM;
	return status == WEIR_OK && config->remarks.errors > errors ? WEIR_EINVAL : status;
}

static int read_in_place(struct weir_config *config, struct slice text, const char *path)
{
	const char *slash = strrchr(path, '/');
	struct source source = {text, path, NULL};

	if (slash)
		source.directory = arena_copy(
		    &config->arena, (struct slice){path, slash == path ? 1 : (size_t)(slash - path)});
	return slash && !source.directory ? WEIR_ENOMEM : read_source(config, &source);
}

static int read_path(struct weir_config *config, const char *path)
{
	struct buffer text = {0};
	struct weir_error error = {0};
	int status = file_read(path, FILE_MAX, &text, &error);

	if (status == WEIR_OK)
		status = read_in_place(config, (struct slice){text.data ? text.data : "", text.len}, path);
	else if (status != WEIR_ENOMEM &&
	         remark_add(config, REMARK_ERROR(path, 0, 0), "%s", error.message) != WEIR_OK)
		status = WEIR_ENOMEM;
	buffer_free(&text);
	return status;
}

/* The rules of the YAML file, kept until the rules of the files before it are in place. */
struct own {
	const char *path; /* NULL if there is none */
	const struct rules_rule *rules;
	size_t rule_count;
};

static int first_of(int status, int other)
{
	return status == WEIR_OK || other == WEIR_ENOMEM ? other : status;
}

static int second_file(struct weir_config *config, const char *path)
{
	char *copy = arena_copy(&config->arena, slice_of(path));

	if (!copy)
		return WEIR_ENOMEM;
	return remark_add(config, REMARK_ERROR(copy, 0, 0),
	                  "expected at most one YAML file, found another beside %s", config->file)
	           ?: WEIR_EINVAL;
}

static int read_own(struct weir_config *config, const struct weir_config_files *files,
                    struct own *own)
{
	int status = WEIR_OK;

	for (size_t i = 0; i < files->count && status != WEIR_ENOMEM; i++) {
		const char *path = files->paths[i];

		if (is_koala(path))
			continue;
		if (own->path) {
			status = first_of(status, second_file(config, path));
			continue;
		}
		own->path = path;
		config->file = arena_copy(&config->arena, slice_of(path));
		status = config->file ? first_of(status, read_path(config, config->file)) : WEIR_ENOMEM;
	}
	own->rules = config->rules;
	own->rule_count = config->rule_count;
	config->rule_count = 0;
	return status;
}

/* Rules that all count would mean something else among rules of which the first decides. */
static int check_order(struct weir_config *config, const struct own *own,
                       const struct weir_config_files *files)
{
	const struct rules_rule *rule = own->rules;

	if (own->rule_count == 0 || config->order == RULES_FIRST || files->count == 1)
		return WEIR_OK;
	return remark_add(
	           config, REMARK_ERROR(rule->file, rule->line, rule->column),
	           "expected `order: first` in a file with rules beside one in Koala's language, "
	           "found none")
	           ?: WEIR_EINVAL;
}

static int put_own_rules(struct weir_config *config, const struct own *own)
{
	struct rules_rule *all =
	    arena_array(&config->arena, config->rule_count + own->rule_count, sizeof *all);

	if (!all)
		return WEIR_ENOMEM;
	if (config->rule_count)
		memcpy(all, config->rules, config->rule_count * sizeof *all);
	if (own->rule_count)
		memcpy(all + config->rule_count, own->rules, own->rule_count * sizeof *all);
	config->rules = all;
	config->rule_count += own->rule_count;
	return WEIR_OK;
}

/* The files that the config lists first are those that were asked for. */
static int list_files(struct weir_config *config, const struct weir_config_files *files)
{
	for (size_t i = 0; i < files->count; i++)
		if (rules_add_file(config, files->paths[i]) != WEIR_OK)
			return WEIR_ENOMEM;
	return WEIR_OK;
}

/* By whichever name. */
static bool is_same_file(const char *a, const char *b)
{
	struct stat one, other;

	return strcmp(a, b) == 0 || (stat(a, &one) == 0 && stat(b, &other) == 0 &&
	                             one.st_dev == other.st_dev && one.st_ino == other.st_ino);
}

/* The same files, each once. ENOMEM, or EINVAL where one was there twice. */
static int each_once(struct weir_config *config, struct weir_config_files *files)
{
	const char **paths = arena_array(&config->arena, files->count, sizeof *paths);
	size_t count = 0;
	int status = WEIR_OK;

	if (!paths)
		return WEIR_ENOMEM;
	for (size_t i = 0; i < files->count && status != WEIR_ENOMEM; i++) {
		const char *path = arena_copy(&config->arena, slice_of(files->paths[i]));
		size_t j = 0;

		while (path && j < count && !is_same_file(paths[j], path))
			j++;
		if (path && j == count)
			paths[count++] = path;
		else if (!path || remark_add(config, REMARK_ERROR(path, 0, 0),
		                             "expected each file once, found it twice") != WEIR_OK)
			status = WEIR_ENOMEM;
		else
			status = WEIR_EINVAL;
	}
	files->paths = paths;
	files->count = count;
	return status;
}

static int read_each(struct weir_config *config, const struct weir_config_files *files)
{
	struct own own = {0};
	int status = list_files(config, files) ?: read_own(config, files, &own);
	const struct rules_file *file = config->files;

	if (status != WEIR_ENOMEM)
		status = first_of(status, check_order(config, &own, files));
	for (size_t i = 0; i < files->count && status != WEIR_ENOMEM; i++, file = file->next) {
		if (is_koala(file->path))
			status = first_of(status, read_path(config, file->path));
		else if (own.path == files->paths[i])
			status = first_of(status, put_own_rules(config, &own));
	}
	return status;
}

static int read_files(struct weir_config *config, struct weir_config_files files)
{
	int status = each_once(config, &files);

	return status == WEIR_ENOMEM ? status : first_of(status, read_each(config, &files));
}

/* The first error of all, in words. */
static int set_result(const struct weir_config *config, int status, bool several,
                      struct weir_error *error)
{
	const struct rules_remark *remark = config->remarks.first;

	while (remark && !remark->said.is_error)
		remark = remark->next;
	if (status == WEIR_ENOMEM || !remark)
		return no_memory(error);
	return error_set_at(error, status, remark->said.line, remark->said.column, "%s%s%s",
	                    several && remark->said.path ? remark->said.path : "",
	                    several && remark->said.path ? ": " : "", remark->said.text);
}

/* Checks the config and stores it in *out, or frees it and stores the first mistake in *error. */
static int finish(struct weir_config *config, int status, const struct weir_config_files *files,
                  weir_config **out, struct weir_error *error)
{
	if (status != WEIR_ENOMEM)
		status = first_of(status, rules_check(config));
	if (status != WEIR_ENOMEM && remark_sort(config) != WEIR_OK)
		status = WEIR_ENOMEM;
	for (const struct rules_remark *remark = config->remarks.first;
	     remark && files->say && status != WEIR_ENOMEM; remark = remark->next)
		files->say(files->context, &remark->said);
	if (status == WEIR_OK) {
		*out = config;
		return WEIR_OK;
	}
	status = set_result(config, status, files->count > 1, error);
	weir_config_close(config);
	return status;
}

int weir_config_read_files(const struct weir_config_files *files, weir_config **out,
                           struct weir_error *error)
{
	struct weir_config *config;

	*out = NULL;
	for (size_t i = 0; i < sizeof files->reserved / sizeof *files->reserved; i++)
		if (files->reserved[i] != 0)
			return error_set(error, WEIR_EINVAL, "reserved: expected 0");
	config = weir_private_config_new();
	if (!config)
		return no_memory(error);
	config->on_file = files->file;
	config->file_context = files->context;
	return finish(config, read_files(config, *files), files, out, error);
}

int weir_config_read_file(const char *path, weir_config **out, struct weir_error *error)
{
	return weir_config_read_files(&(struct weir_config_files){.paths = &path, .count = 1}, out,
	                              error);
}

int weir_config_read_yaml(const char *text, size_t len, const char *directory, weir_config **out,
                          struct weir_error *error)
{
	const struct source source = {{text ? text : "", len}, NULL, directory};
	struct weir_config *config;

	*out = NULL;
	if (!text && len > 0)
		return error_set(error, WEIR_EINVAL, "expected a text of %zu bytes, found NULL", len);
	config = weir_private_config_new();
	if (!config)
		return no_memory(error);
	return finish(config, read_source(config, &source), &(struct weir_config_files){.count = 1},
	              out, error);
}
