/* source.h: a text of rules, in whichever language, and the files that it names. */
#ifndef READERS_SOURCE_H
#define READERS_SOURCE_H

#include "rules/model.h"

struct source {
	struct slice text;
	const char *file;      /* that it is of, for remarks; NULL: none */
	const char *directory; /* that names of files are relative to; NULL: the working one */
};

/**
 * The dictionary of a file whose name is relative to `directory`, or to the working directory where
 * that is NULL, or has no such file. Errors as of dictionary_open.
 */
int read_dictionary_file(struct weir_config *config, const char *directory, const char *name,
                         const struct dictionary **out, struct weir_error *error);

#endif
