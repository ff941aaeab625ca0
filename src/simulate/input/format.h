/*
 * format.h: parses a line of a log into a request, by the format of the log.
 *
 * A parser stores the fields that are requested and skips the others. Values point into the line,
 * where escapes are decoded in place.
 */
#ifndef SIMULATE_FORMAT_H
#define SIMULATE_FORMAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/engine.h>

#include "base/slice.h"

#define FORMAT_COLUMNS_MAX   256
#define FORMAT_ENDING_FIELDS 6 /* fields of ending.h */
#define FORMAT_FIELDS_MAX    (WEIR_ATTRIBUTES_MAX + FORMAT_ENDING_FIELDS)

/* The requested fields: at most WEIR_ATTRIBUTES_MAX attributes, and those of ending.h. */
struct fields {
	struct slice names[FORMAT_FIELDS_MAX]; /* each is followed by a NUL */
	size_t count;
};

#define FORMAT_SECOND_LEN 26 /* bytes of "14/Nov/2023:22:13:20 +0000" */

#define RECORD_NO_END WEIR_OUTCOME_COUNT

/* A request of a trace. Zeroed before the first line. */
struct record {
	uint64_t time_ns;
	uint64_t cost;
	struct slice values[FORMAT_FIELDS_MAX]; /* one for each field; data NULL if absent */

	/* Set by endings_read, if it is called. */
	uint64_t latency_ns; /* 0 if not known */
	uint64_t end_ns;     /* time_ns + latency_ns */
	uint8_t outcome;     /* enum weir_outcome, or RECORD_NO_END */

	/* Cache of the time last parsed by format_combined, since a second has many lines. */
	char second[FORMAT_SECOND_LEN];
	uint64_t second_ns;
};

/* The field that each column of a format fills. */
struct columns {
	const struct fields *fields;
	int targets[FORMAT_COLUMNS_MAX]; /* index of the field, or a TARGET_ */
	size_t count;
};

enum { TARGET_NONE = -1, TARGET_TIME = -2, TARGET_COST = -3 };

/** Parses a line. Errors: ESYNTAX with a column and "expected …, found …". */
typedef int format_parse(const struct columns *columns, struct slice line, struct record *record,
                         struct weir_error *error);

struct format {
	const char *name;
	const char *const *fixed; /* names of its columns, ended by NULL; NULL if they are not fixed */
	/** Reads the first line, the names of columns; NULL if the format has none. */
	int (*header)(struct columns *columns, struct slice line, struct weir_error *error);
	format_parse *parse;
};

/** Finds a format by name; NULL if there is none. */
const struct format *format_named(const char *name);
/** Guesses the format by the first line of a log. */
const struct format *format_guess(struct slice line);
/** "combined, jsonl or csv", for messages. */
#define FORMAT_NAMES "combined, jsonl or csv"

/** The target of the field `name`. */
int format_target(const struct fields *fields, struct slice name);
/** Sets the columns of a format with fixed names. */
void format_columns(const struct format *format, const struct fields *fields,
                    struct columns *columns);

/** Sets the error "expected `what`, found …" at `at`, in `line` or at its end. */
int format_expected(struct weir_error *error, struct slice line, const char *at, const char *what);

/** Stores a value of the line at its target; checks times and costs. */
int format_store_value(struct record *record, int target, struct slice value, struct slice line,
                       struct weir_error *error);

/** Clears the values of an earlier line. */
void format_begin(const struct columns *columns, struct record *record);
/** Checks, at the end of a line, that there was a time. */
int format_end(const struct record *record, struct slice line, struct weir_error *error);

format_parse format_combined, format_jsonl, format_csv;
int format_csv_header(struct columns *columns, struct slice line, struct weir_error *error);

#endif
