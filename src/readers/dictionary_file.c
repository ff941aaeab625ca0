/* dictionary_file.c: reads the file of a dictionary, beside the file that names it. */
#include <stdio.h>
#include <unistd.h>

#include "base/error.h"
#include "readers/phrase.h"
#include "readers/source.h"
#include "rules/remark.h"

/* The remarks about a file. */
struct remarks {
	struct weir_config *config;
	const char *path;
	size_t wrong; /* lines */
	bool no_memory;
};

static void report_line(void *context, const struct weir_error *error)
{
	struct remarks *remarks = context;

	if (remarks->wrong++ < SOURCE_WRONG_LINES_MAX &&
	    remark_add(remarks->config, REMARK_ERROR(remarks->path, error->line, error->column), "%s",
	               error->message) != WEIR_OK)
		remarks->no_memory = true;
}

/* Returns NULL if it was not opened yet. */
static const struct rules_dictionary *find_dictionary(const struct weir_config *config,
                                                      const char *path)
{
	const struct rules_dictionary *item = config->dictionaries;

	while (item && strcmp(item->path, path) != 0)
		item = item->next;
	return item;
}

/* Adds the remarks about the file as a whole. */
static void tell_of_all(struct remarks *remarks)
{
	const struct rules_dictionary *item = find_dictionary(remarks->config, remarks->path);
	int status = WEIR_OK;

	if (remarks->wrong > SOURCE_WRONG_LINES_MAX)
		status = remark_add(remarks->config, REMARK_ERROR(remarks->path, 0, 0),
		                    "expected fewer wrong lines, found %zu more",
		                    remarks->wrong - SOURCE_WRONG_LINES_MAX);
	else if (item && item->dictionary && item->count == 0)
		status = remark_add(remarks->config, REMARK_WARNING(remarks->path, 0, 0),
		                    "expected a word or an address on each line, found none: this "
		                    "dictionary matches no value");
	remarks->no_memory |= status != WEIR_OK;
}

/* The error at the place that names the file. */
static int cannot_read(struct slice name, const struct weir_error *why, size_t wrong,
                       struct weir_error *error)
{
	char line[32] = "", more[48] = "";

	if (why->line > 0)
		snprintf(line, sizeof line, "line %u: ", why->line);
	if (wrong > 1)
		snprintf(more, sizeof more, " (and %zu more)", wrong - 1);
	return error_set(error, why->status, "expected a dictionary, found %s: %s%s%s",
	                 phrase_quote(name).text, line, why->message, more);
}

int read_dictionary_file(struct weir_config *config, const char *directory, struct slice name,
                         const struct dictionary **out, struct weir_error *error)
{
	struct remarks remarks = {.config = config, .path = source_path(config, directory, name)};
	const struct dictionary_reporter reporter = {report_line, &remarks};
	struct weir_error why = {0};
	int status = WEIR_ENOMEM;
	bool is_known;

	*out = NULL;
	if (remarks.path) {
		is_known = find_dictionary(config, remarks.path);
		status = weir_private_config_dictionary(config, remarks.path, &reporter, out, &why);
		if (!is_known)
			tell_of_all(&remarks);
	}
	if (status == WEIR_ENOMEM || remarks.no_memory)
		return error_set(error, WEIR_ENOMEM, "%s", weir_strerror(WEIR_ENOMEM));
	return status == WEIR_OK ? status : cannot_read(name, &why, remarks.wrong, error);
}
