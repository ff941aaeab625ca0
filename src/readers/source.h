/* source.h: describes a text of rules in any language, and the files that it names. */
#ifndef READERS_SOURCE_H
#define READERS_SOURCE_H

#include "rules/model.h"

struct source {
	struct slice text;
	const char *file;      /* that it is of, for remarks, or NULL */
	const char *directory; /* of relative file names; NULL for the working one */
};

#define SOURCE_WRONG_LINES_MAX 100 /* of a dictionary that have remarks */

/**
 * The dictionary of a file whose name is relative to `directory`, or to the working directory where
 * that is NULL, or has no such file. Errors as of dictionary_open, in words that name the file.
 * Remarks tell its wrong lines, and that it is empty.
 */
int read_dictionary_file(struct weir_config *config, const char *directory, struct slice name,
                         const struct dictionary **out, struct weir_error *error);

/**
 * The path of a file that another one names: beside that, in `directory`, or in the working
 * directory. Returns NULL if there is no memory.
 */
const char *source_path(struct weir_config *config, const char *directory, struct slice name);

/*
 * Warns of the lines that match no address in dictionaries that rules use for addresses alone, for
 * example because a comment follows the address. Returns 0 or ENOMEM.
 */
int remark_on_address_lists(struct weir_config *config);

#endif
