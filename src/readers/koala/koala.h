/*
 * koala.h: reads rule files of Koala, another rate limiter, into Weir's configuration.
 *
 * A file is read line by line. After an error reading goes on: each error is stored as a remark of
 * the configuration, and the line with the error is left out. Rules name results that follow them
 * in the file, so rules get their answers at the end of the file.
 */
#ifndef READERS_KOALA_H
#define READERS_KOALA_H

#include "base/buffer.h"
#include "readers/phrase.h"
#include "readers/source.h"

#define KOALA_RULES_MAX        65536 /* of a file */
#define KOALA_RESULTS_MAX      1000
#define KOALA_DICTIONARIES_MAX 1000

struct koala_dictionary {
	struct slice name; /* in the text */
	unsigned line, column;
	struct rules_value value; /* for each condition that names the dictionary */
	bool is_used;
};

/* A rule that was read, and the number of the result from which its answer will be made. */
struct koala_rule {
	struct rules_rule rule;
	struct rules_limit limit; /* has a name only if the rule counts requests */
	uint64_t result, code;    /* number of the result, and the code to write into it */
	unsigned result_line, result_column;
};

/* An answer of the section [result], and its two parts around the code that a rule writes into it.
 */
struct koala_result {
	uint64_t number;
	const char *json; /* the whole, with the code of the file */
	struct slice before_code, after_code;
};

struct koala {
	struct weir_config *config;
	const char *file, *directory; /* of the source */
	struct slice line;            /* that is being read */
	unsigned line_number;
	unsigned rules_line, result_line;           /* where these sections begin, or 0 */
	struct buffer dictionaries, rules, results; /* arrays of these structs */
	bool no_memory;
	bool has_lines_before_sections;
	bool has_rules; /* valid or not */
	/* An invalid line may have had these, so no remark says that they are missing. */
	bool may_lack_conditions; /* a rule could not be read, so what it uses is unknown */
	bool may_lack_results;
};

/**
 * Adds the limits and rules of a text to the config, and remarks about its mistakes. Returns
 * ENOMEM, or 0 even if there are mistakes.
 */
int koala_read(struct weir_config *config, const struct source *source);

/* The parts of a file, each read by a file of its own. `text` lies in the line. */
void koala_read_dictionary(struct koala *koala, struct slice text);
void koala_read_rule(struct koala *koala, struct slice text);
void koala_read_conditions(struct koala *koala, struct slice text, struct rules_rule *rule);
void koala_read_result(struct koala *koala, struct slice text);

/** Adds an error or a warning about the line at `at`, or about the file if that is NULL. */
void koala_error(struct koala *koala, const char *at, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void koala_warning(struct koala *koala, const char *at, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/** Adds the error "expected `what`, found `found`". */
void koala_expected(struct koala *koala, struct slice found, const char *what);
/** The column of `at` in the line. */
unsigned koala_column(const struct koala *koala, const char *at);

/**
 * Warns if a value of a condition, which is compared as text, is probably a typing error.
 * `is_first`: in the condition's list. Returns whether it warned.
 */
bool koala_warn_of_slip(struct koala *koala, struct slice text, bool is_first,
                        const struct rules_condition *condition);

/** Reads a whole number from `min` to `max`. Returns false after an error. */
bool koala_read_number(struct koala *koala, struct slice text, uint64_t min, uint64_t max,
                       uint64_t *out);

/** Copies `text` to the arena. Returns NULL, and sets no_memory, if there is no memory. */
char *koala_copy(struct koala *koala, struct slice text);

/** Whether the rest of a line is blank or a comment. */
bool koala_is_end_of_line(struct slice rest);

/** Warns of each dictionary that no rule names. */
void koala_warn_of_unused_dictionaries(struct koala *koala);

/** Finds the dictionary or the result with that name or number; NULL if there is none. */
struct koala_dictionary *koala_dictionary(struct koala *koala, struct slice name);
const struct koala_result *koala_result(const struct koala *koala, uint64_t number);

static inline struct koala_dictionary *koala_dictionaries(struct koala *koala, size_t *count)
{
	*count = koala->dictionaries.len / sizeof(struct koala_dictionary);
	return (struct koala_dictionary *)(void *)koala->dictionaries.data;
}

#endif
