/*
 * dictionary_file.c: reads a dictionary, a file with a list of values that conditions of rules
 * name, and adds remarks about its mistakes to the configuration.
 */
#include <stdio.h>
#include <unistd.h>

#include "base/error.h"
#include "readers/phrase.h"
#include "readers/source.h"
#include "rules/remark.h"

/* Counts the mistakes of a file while they are reported. */
struct remarks {
	struct weir_config *config;
	const char *path;
	size_t wrong_lines;
	bool no_memory;
};

static void report_line(void *context, const struct weir_error *error)
{
	struct remarks *remarks = context;

	if (remarks->wrong_lines++ < SOURCE_WRONG_LINES_MAX &&
	    remark_add(remarks->config, REMARK_ERROR(remarks->path, error->line, error->column), "%s",
	               error->message) != WEIR_OK)
		remarks->no_memory = true;
}

/* Returns NULL if the config has not opened the dictionary yet. */
static const struct rules_dictionary *find_dictionary(const struct weir_config *config,
                                                      const char *path)
{
	const struct rules_dictionary *item = config->dictionaries;

	while (item && strcmp(item->path, path) != 0)
		item = item->next;
	return item;
}

/* Adds the remarks about the file as a whole. */
static void remark_on_whole_file(struct remarks *remarks)
{
	const struct rules_dictionary *item = find_dictionary(remarks->config, remarks->path);
	int status = WEIR_OK;

	if (remarks->wrong_lines > SOURCE_WRONG_LINES_MAX)
		status = remark_add(remarks->config, REMARK_ERROR(remarks->path, 0, 0),
		                    "expected fewer wrong lines, found %zu more",
		                    remarks->wrong_lines - SOURCE_WRONG_LINES_MAX);
	else if (item && item->dictionary && item->count == 0)
		status = remark_add(remarks->config, REMARK_WARNING(remarks->path, 0, 0),
		                    "expected a word or an address on each line, found none: this "
		                    "dictionary matches no value");
	remarks->no_memory |= status != WEIR_OK;
}

/* Sets the error for the rule that names the file, from the first of its `wrong_lines`. */
static int set_unreadable_error(struct slice name, const struct weir_error *cause,
                                size_t wrong_lines, struct weir_error *error)
{
	char line[32] = "", more[48] = "";

	if (cause->line > 0)
		snprintf(line, sizeof line, "line %u: ", cause->line);
	if (wrong_lines > 1)
		snprintf(more, sizeof more, " (and %zu more)", wrong_lines - 1);
	return error_set(error, cause->status, "expected a dictionary, found %s: %s%s%s",
	                 phrase_quote(name).text, line, cause->message, more);
}

int read_dictionary_file(struct weir_config *config, const char *directory, struct slice name,
                         const struct dictionary **out, struct weir_error *error)
{
	struct remarks remarks = {.config = config, .path = source_path(config, directory, name)};
	const struct dictionary_reporter reporter = {report_line, &remarks};
	struct weir_error cause = {0};
	int status = WEIR_ENOMEM;
	bool was_open;

	*out = NULL;
	if (remarks.path) {
		was_open = find_dictionary(config, remarks.path);
		status = weir_private_config_dictionary(config, remarks.path, &reporter, out, &cause);
		if (!was_open)
			remark_on_whole_file(&remarks);
	}
	if (status == WEIR_ENOMEM || remarks.no_memory)
		return error_set(error, WEIR_ENOMEM, "%s", weir_strerror(WEIR_ENOMEM));
	return status == WEIR_OK ? status
	                         : set_unreadable_error(name, &cause, remarks.wrong_lines, error);
}

/* Whether rules look up the attribute `ip` in the dictionary, and no other attribute. */
static bool is_for_addresses_alone(const struct weir_config *config,
                                   const struct dictionary *dictionary)
{
	bool is_used = false;

	for (size_t i = 0; i < config->rule_count; i++)
		for (size_t j = 0; j < config->rules[i].condition_count; j++) {
			const struct rules_condition *condition = &config->rules[i].conditions[j];

			for (size_t k = 0; k < condition->value_count; k++) {
				const struct rules_value *value = &condition->values[k];

				if (value->test != RULES_LISTED || value->dictionary != dictionary)
					continue;
				if (strcmp(condition->attribute, "ip") != 0)
					return false;
				is_used = true;
			}
		}
	return is_used;
}

static int remark_on_texts(struct weir_config *config, const char *path,
                           const struct dictionary_texts *texts)
{
	struct slice first = {texts->first, texts->first_len};
	char others[64] = "";

	if (texts->count > 1)
		snprintf(others, sizeof others, " and %zu more such line%s", texts->count - 1,
		         texts->count > 2 ? "s" : "");
	return remark_add(config, REMARK_WARNING(path, texts->line, 1),
	                  "expected an address or a range, since only `ip` is looked up here, found "
	                  "%s%s: it matches no address. A comment needs a line of its own",
	                  phrase_quote(first).text, others);
}

int remark_on_address_lists(struct weir_config *config)
{
	int status = WEIR_OK;

	for (const struct rules_dictionary *item = config->dictionaries; item && status == WEIR_OK;
	     item = item->next)
		if (item->texts.count > 0 && is_for_addresses_alone(config, item->dictionary))
			status = remark_on_texts(config, item->path, &item->texts);
	return status;
}
