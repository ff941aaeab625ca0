/*
 * koala_dictionary.c: reads the section [dicts] of a Koala rule file. Each of its lines gives a
 * name to a dictionary, a file with a list of values, which conditions use: `uid @ staff_ids`.
 */
#include "base/error.h"
#include "readers/koala/koala.h"
#include "rules/remark.h"

struct koala_dictionary *koala_dictionary(struct koala *koala, struct slice name)
{
	size_t count;
	struct koala_dictionary *dictionaries = koala_dictionaries(koala, &count);

	for (size_t i = 0; i < count; i++)
		if (slice_equal(dictionaries[i].name, name))
			return &dictionaries[i];
	return NULL;
}

/* Cuts off a comment, whose # follows a blank, since a path may contain a #. */
static struct slice without_comment(struct slice line)
{
	for (size_t i = 1; i < line.len; i++)
		if (line.data[i] == '#' && (line.data[i - 1] == ' ' || line.data[i - 1] == '\t'))
			return (struct slice){line.data, i};
	return line;
}

/*
 * Reads the file `path` and adds its dictionary. A dictionary that can't be read is added too, so
 * that only its own line has an error and not each rule that names it.
 */
static void add_dictionary(struct koala *koala, struct slice path, struct koala_dictionary *out)
{
	char *copy = koala_copy(koala, path);
	struct weir_error error;
	int status;

	if (!copy)
		return;
	out->value.test = RULES_LISTED;
	out->value.text = (struct slice){copy, path.len};
	status =
	    read_dictionary_file(koala->config, koala->directory, path, &out->value.dictionary, &error);
	koala->no_memory |= status == WEIR_ENOMEM;
	if (status != WEIR_OK)
		koala_error(koala, path.data, "%s", error.message);
	buffer_add(&koala->dictionaries, out, sizeof *out);
}

/* Reads a line of the form `name : path`. */
void koala_read_dictionary(struct koala *koala, struct slice line)
{
	struct koala_dictionary dictionary = {.line = koala->line_number};
	struct slice path = without_comment(line);
	size_t count;

	koala_dictionaries(koala, &count);
	dictionary.name = slice_trim(slice_cut(&path, ':'));
	path = slice_trim(path);
	dictionary.column = koala_column(koala, dictionary.name.data);
	if (count == KOALA_DICTIONARIES_MAX)
		koala_error(koala, line.data, "expected at most %d dictionaries, found more",
		            KOALA_DICTIONARIES_MAX);
	else if (dictionary.name.len == 0 || path.len == 0)
		koala_expected(koala, line, "a dictionary such as staff_ids : dicts/staff.dat");
	else if (koala_dictionary(koala, dictionary.name))
		koala_error(koala, dictionary.name.data, "expected each dictionary once, found %s again",
		            phrase_quote(dictionary.name).text);
	else
		add_dictionary(koala, path, &dictionary);
}

void koala_warn_of_unused_dictionaries(struct koala *koala)
{
	size_t count;
	const struct koala_dictionary *dictionaries = koala_dictionaries(koala, &count);

	if (koala->may_lack_conditions) /* a rule that was not read may use the dictionary */
		return;
	for (size_t i = 0; i < count; i++)
		if (!dictionaries[i].is_used &&
		    remark_add(koala->config,
		               REMARK_WARNING(koala->file, dictionaries[i].line, dictionaries[i].column),
		               "expected a rule that uses the dictionary %s, found none",
		               phrase_quote(dictionaries[i].name).text) != WEIR_OK)
			koala->no_memory = true;
}
