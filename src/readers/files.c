/*
 * files.c: reads a configuration from rule files, of which one may be in YAML and others in the
 * language of Koala, another rate limiter.
 *
 * The YAML file is read first, wherever it stands among the files, because its settings apply to
 * the others. The rules are in the order of the files.
 */
#include <sys/stat.h>

#include "base/error.h"
#include "base/os/read_file.h"
#include "readers/koala/koala.h"
#include "readers/yaml/read.h"
#include "rules/check.h"
#include "rules/remark.h"

#define FILE_BYTES_MAX ((size_t)16 << 20)

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

/*
 * Reads a text in the language of its file. Stores mistakes as remarks of the config, and then
 * returns EINVAL or another error. The readers make remarks themselves and go on; only a mistake
 * after which yaml_read can not go on comes back as its status, with a message in `error`.
 */
static int read_source(struct weir_config *config, const struct source *source)
{
	size_t errors_before = config->remarks.errors;
	struct weir_error error = {0};
	int status;

	if (source->text.len > FILE_BYTES_MAX)
		status = error_set(&error, WEIR_ELONG, "expected at most 16 MiB, found more");
	else if (source->file && is_koala(source->file))
		status = koala_read(config, source);
	else
		status = yaml_read(config, source, &error);
	if (status != WEIR_OK && status != WEIR_ENOMEM && *error.message &&
	    remark_add(config, REMARK_ERROR(source->file, error.line, error.column), "%s",
	               error.message) != WEIR_OK)
		return WEIR_ENOMEM;
	return status == WEIR_OK && config->remarks.errors > errors_before ? WEIR_EINVAL : status;
}

/* Reads the text of the file `path`, in whose directory the files are that it names. */
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
	int status = file_read(path, FILE_BYTES_MAX, &text, &error);

	if (status == WEIR_OK)
		status = read_in_place(config, (struct slice){text.data ? text.data : "", text.len}, path);
	else if (status != WEIR_ENOMEM &&
	         remark_add(config, REMARK_ERROR(path, 0, 0), "%s", error.message) != WEIR_OK)
		status = WEIR_ENOMEM;
	buffer_free(&text);
	return status;
}

/* The rules of the YAML file, which wait until the rules of the files before it have been read. */
struct yaml_rules {
	const char *path; /* NULL if there is none */
	const struct rules_rule *rules;
	size_t rule_count;
};

/* Returns the first error of the two, but ENOMEM in any case. */
static int first_status(int status, int other)
{
	return status == WEIR_OK || other == WEIR_ENOMEM ? other : status;
}

static int refuse_second_yaml_file(struct weir_config *config, const char *path)
{
	char *copy = arena_copy(&config->arena, slice_of(path));

	if (!copy)
		return WEIR_ENOMEM;
	return remark_add(config, REMARK_ERROR(copy, 0, 0),
	                  "expected at most one YAML file, found another beside %s", config->file)
	           ?: WEIR_EINVAL;
}

/* Reads the YAML file, if there is one, and moves its rules from the config to *yaml_rules. */
static int read_yaml_file(struct weir_config *config, const struct weir_config_files *files,
                          struct yaml_rules *yaml_rules)
{
	int status = WEIR_OK;

	for (size_t i = 0; i < files->count && status != WEIR_ENOMEM; i++) {
		const char *path = files->paths[i];

		if (is_koala(path))
			continue;
		if (yaml_rules->path) {
			status = first_status(status, refuse_second_yaml_file(config, path));
			continue;
		}
		yaml_rules->path = path;
		config->file = arena_copy(&config->arena, slice_of(path));
		status = config->file ? first_status(status, read_path(config, config->file)) : WEIR_ENOMEM;
	}
	yaml_rules->rules = config->rules;
	yaml_rules->rule_count = config->rule_count;
	config->rule_count = 0;
	return status;
}

static bool has_koala_file(const struct weir_config_files *files)
{
	for (size_t i = 0; i < files->count; i++)
		if (is_koala(files->paths[i]))
			return true;
	return false;
}

/* The first of Koala's rules that applies decides, so rules in YAML beside them must do so too. */
static int check_order(struct weir_config *config, const struct yaml_rules *yaml_rules,
                       const struct weir_config_files *files)
{
	const struct rules_rule *rule = yaml_rules->rules;

	if (yaml_rules->rule_count == 0 || config->order == RULES_FIRST || !has_koala_file(files))
		return WEIR_OK;
	return remark_add(
	           config, REMARK_ERROR(rule->file, rule->line, rule->column),
	           "expected `order: first` in a file with rules beside one in Koala's language, "
	           "found none")
	           ?: WEIR_EINVAL;
}

static int append_yaml_rules(struct weir_config *config, const struct yaml_rules *yaml_rules)
{
	struct rules_rule *all =
	    arena_array(&config->arena, config->rule_count + yaml_rules->rule_count, sizeof *all);

	if (!all)
		return WEIR_ENOMEM;
	if (config->rule_count)
		memcpy(all, config->rules, config->rule_count * sizeof *all);
	if (yaml_rules->rule_count)
		memcpy(all + config->rule_count, yaml_rules->rules, yaml_rules->rule_count * sizeof *all);
	config->rules = all;
	config->rule_count += yaml_rules->rule_count;
	return WEIR_OK;
}

/* Lists the caller's files in the config, before those that they name, such as dictionaries. */
static int list_files(struct weir_config *config, const struct weir_config_files *files)
{
	for (size_t i = 0; i < files->count; i++)
		if (rules_add_file(config, files->paths[i]) != WEIR_OK)
			return WEIR_ENOMEM;
	return WEIR_OK;
}

/* Whether two paths lead to one file. */
static bool is_same_file(const char *a, const char *b)
{
	struct stat one, other;

	return strcmp(a, b) == 0 || (stat(a, &one) == 0 && stat(b, &other) == 0 &&
	                             one.st_dev == other.st_dev && one.st_ino == other.st_ino);
}

/* Removes repeated files from the list. Returns EINVAL, after a remark, if there were any. */
static int refuse_repeated_files(struct weir_config *config, struct weir_config_files *files)
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

/*
 * Reads the YAML file first, for its settings, then the others in order. The config lists the same
 * files in the same order, with copies of their paths that last as long as the config.
 */
static int read_all_files(struct weir_config *config, const struct weir_config_files *files)
{
	struct yaml_rules yaml_rules = {0};
	int status = list_files(config, files) ?: read_yaml_file(config, files, &yaml_rules);
	const struct rules_file *file = config->files;

	if (status != WEIR_ENOMEM)
		status = first_status(status, check_order(config, &yaml_rules, files));
	for (size_t i = 0; i < files->count && status != WEIR_ENOMEM; i++, file = file->next) {
		if (is_koala(file->path))
			status = first_status(status, read_path(config, file->path));
		else if (yaml_rules.path == files->paths[i])
			status = first_status(status, append_yaml_rules(config, &yaml_rules));
	}
	return status;
}

static int read_files(struct weir_config *config, struct weir_config_files files)
{
	int status = refuse_repeated_files(config, &files);

	return status == WEIR_ENOMEM ? status : first_status(status, read_all_files(config, &files));
}

/* Sets *error to the first error among the remarks, with its file if the caller passed several. */
static int set_first_error(const struct weir_config *config, int status, bool names_file,
                           struct weir_error *error)
{
	const struct rules_remark *remark = config->remarks.first;

	while (remark && !remark->content.is_error)
		remark = remark->next;
	if (status == WEIR_ENOMEM || !remark)
		return no_memory(error);
	return error_set_at(error, status, remark->content.line, remark->content.column, "%s%s%s",
	                    names_file && remark->content.path ? remark->content.path : "",
	                    names_file && remark->content.path ? ": " : "", remark->content.text);
}

/*
 * Checks the config, reports all remarks to the caller's function, and stores the config in *out.
 * If it has errors, frees it and stores the first in *error.
 */
static int check_and_return(struct weir_config *config, int status,
                            const struct weir_config_files *files, weir_config **out,
                            struct weir_error *error)
{
	if (status != WEIR_ENOMEM)
		status = first_status(status, rules_check(config));
	if (status == WEIR_OK)
		status = remark_on_address_lists(config);
	if (status != WEIR_ENOMEM && remark_sort(config) != WEIR_OK)
		status = WEIR_ENOMEM;
	for (const struct rules_remark *remark = config->remarks.first;
	     remark && files->say && status != WEIR_ENOMEM; remark = remark->next)
		files->say(files->context, &remark->content);
	if (status == WEIR_OK) {
		*out = config;
		return WEIR_OK;
	}
	status = set_first_error(config, status, files->count > 1, error);
	weir_config_close(config);
	return status;
}

int weir_config_read_files(const struct weir_config_files *files, weir_config **out,
                           struct weir_error *error)
{
	struct weir_config *config;

	*out = NULL;
	if (error_check_reserved(error, files->reserved) != WEIR_OK)
		return WEIR_EINVAL;
	config = weir_private_config_new();
	if (!config)
		return no_memory(error);
	config->on_file = files->file;
	config->file_context = files->context;
	return check_and_return(config, read_files(config, *files), files, out, error);
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
	return check_and_return(config, read_source(config, &source),
	                        &(struct weir_config_files){.count = 1}, out, error);
}
