/* remark.h: adds errors and warnings about the files of a configuration, and sorts them. */
#ifndef RULES_REMARK_H
#define RULES_REMARK_H

#include "rules/model.h"

/* A configuration keeps this many remarks and leaves out the rest. */
#define REMARKS_MAX 1000

/** Adds a remark; `about` has all of it but its text. Returns 0 or ENOMEM. */
int remark_add(struct weir_config *config, const struct weir_config_remark *about,
               const char *format, ...) __attribute__((format(printf, 3, 4)));

#define REMARK_ERROR(file_, line_, column_)                                                        \
	&(const struct weir_config_remark)                                                             \
	{                                                                                              \
		.path = (file_), .line = (line_), .column = (column_), .is_error = true                    \
	}
#define REMARK_WARNING(file_, line_, column_)                                                      \
	&(const struct weir_config_remark)                                                             \
	{                                                                                              \
		.path = (file_), .line = (line_), .column = (column_)                                      \
	}

/** Sorts the remarks by line, and their files as in config->files. Returns 0 or ENOMEM. */
int remark_sort(struct weir_config *config);

#endif
