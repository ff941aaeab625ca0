/*
 * format.h: one line of a log -> one request.
 *
 * A parser keeps what is asked for and steps over the rest. Values lie in the
 * line itself, where escapes are undone in place.
 */
#ifndef SIMULATE_FORMAT_H
#define SIMULATE_FORMAT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/engine.h>

#include "base/slice.h"

#define FORMAT_COLUMNS_MAX   256
#define FORMAT_ENDING_FIELDS 6 /* what tells how a request ended, see ending.h */
#define FORMAT_FIELDS_MAX    (WEIR_ATTRIBUTES_MAX + FORMAT_ENDING_FIELDS)

/* The attributes asked for, WEIR_ATTRIBUTES_MAX at most, and what else is. */
struct fields {
	struct slice names[FORMAT_FIELDS_MAX]; /* with a NUL behind each */
	size_t count;
};

#define FORMAT_SECOND 26 /* bytes of "14/Nov/2023:22:13:20 +0000" */

#define RECORD_NO_END WEIR_OUTCOME_COUNT

/* A request of a trace. Zeroed before the first line. */
struct record {
	uint64_t time_ns;
	uint64_t cost;
	struct slice values[FORMAT_FIELDS_MAX]; /* as the fields; data NULL: absent */

	/* From endings_read, where that is called. */
	uint64_t latency_ns; /* 0 if it is not known, or none */
	uint64_t end_ns;     /* the time behind it */
	uint8_t outcome;     /* enum weir_outcome, or RECORD_NO_END */

	/* The time last read from a combined log, which has many lines to a second. */
	char second[FORMAT_SECOND];
	uint64_t second_ns;
};

/* The field that each column of a format fills. */
struct columns {
	const struct fields *fields;
	int targets[FORMAT_COLUMNS_MAX]; /* a field's index, or one of: */
	size_t count;
};

enum { TARGET_NONE = -1, TARGET_TIME = -2, TARGET_COST = -3 };

/** Errors: ESYNTAX with a column; "expected …, found …". */
typedef int format_parse(const struct columns *columns, struct slice line, struct record *record,
                         struct weir_error *error);

struct format {
	const char *name;
	const char *const *fixed; /* its columns' names, NULL behind them; NULL if not fixed */
	/** Reads the first line as names of columns; NULL if the format has no such line. */
	int (*header)(struct columns *columns, struct slice line, struct weir_error *error);
	format_parse *parse;
};

/** By name, or NULL. */
const struct format *format_named(const char *name);
/** By the first line of a log. */
const struct format *format_guess(struct slice line);
/** "combined, jsonl or csv", for messages. */
#define FORMAT_NAMES "combined, jsonl or csv"

/** The target of the values called `name`. */
int format_target(const struct fields *fields, struct slice name);
/** Columns of the format's fixed names. */
void format_columns(const struct format *format, const struct fields *fields,
                    struct columns *columns);

/** An error at `at`, which lies in `line` or at its end: "expected `what`, found …". */
int format_expected(struct weir_error *error, struct slice line, const char *at, const char *what);

/** Takes a value for `target`; `column` counts from 1. */
int format_store_value(struct record *record, int target, struct slice value, struct slice line,
                       struct weir_error *error);

/** Forgets an earlier line. */
void format_begin(const struct columns *columns, struct record *record);
/** At the end of a line: the time must have been there. */
int format_end(const struct record *record, struct slice line, struct weir_error *error);

format_parse format_combined, format_jsonl, format_csv;
int format_csv_header(struct columns *columns, struct slice line, struct weir_error *error);

#endif
