/*
 * koala.h: reads rule files in Koala's language.
 *
 * A file is read line by line. Errors do not end that: each is a remark of the config, and what
 * they are about is left out. Rules name results that come behind them, so the model is made at the
 * end of the file.
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
	struct rules_value value; /* that it makes of a condition */
	bool is_used;
};

/* A rule that was read, but for its result. */
struct koala_rule {
	struct rules_rule rule;
	struct rules_limit limit; /* of a rule that counts; else it has no name */
	uint64_t result, code;
	unsigned result_line, result_column;
};

/* The JSON of an answer, cut at the place where a rule puts its code. */
struct koala_result {
	uint64_t number;
	const char *whole;       /* as it is */
	struct slice head, tail; /* of `whole`, before and behind the code */
};

struct koala {
	struct weir_config *config;
	const char *file, *directory; /* of the source */
	struct slice line;     /* the one that is read */
	unsigned line_number;
	unsigned rules_line, result_line;           /* where these sections begin, or 0 */
	struct buffer dictionaries, rules, results; /* arrays of these structs */
	bool no_memory;
	/* If a part can't be read, no remark says that it is missing. */
	bool has_strays;      /* lines before the first section */
	bool has_rules;       /* lines of that section */
	bool lost_conditions; /* of a rule */
	bool lost_result;
};

/**
 * Adds the limits and rules of a text to the config, and its remarks. 0 also where these have
 * errors, or ENOMEM.
 */
int koala_read(struct weir_config *config, const struct source *source);

/* The parts of a file, each read by a file of its own. `text` lies in the line. */
void koala_read_dictionary(struct koala *koala, struct slice text);
void koala_read_rule(struct koala *koala, struct slice text);
void koala_read_conditions(struct koala *koala, struct slice text, struct rules_rule *rule);
void koala_read_result(struct koala *koala, struct slice text);

/** A remark about what stands at `at` in the line. */
void koala_error(struct koala *koala, const char *at, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
void koala_warning(struct koala *koala, const char *at, const char *format, ...)
    __attribute__((format(printf, 3, 4)));
/** "expected WHAT, found …" */
void koala_expected(struct koala *koala, struct slice found, const char *what);
/** The column of `at` in the line. */
unsigned koala_column(const struct koala *koala, const char *at);

/** Warns of a text of a condition that was hardly meant as text. Whether it did. */
bool koala_warn_of_slip(struct koala *koala, struct slice text, bool is_first,
                        const struct rules_condition *condition);

/** A whole number from `min` to `max`; else an error, and false. */
bool koala_number(struct koala *koala, struct slice text, uint64_t min, uint64_t max,
                  uint64_t *out);

/** `text` in the arena, or NULL. */
char *koala_copy(struct koala *koala, struct slice text);

/** Whether there is nothing more on a line, or a comment. */
bool koala_ends(struct slice rest);

/** Warns of each dictionary that no rule names. */
void koala_warn_of_unused(struct koala *koala);

/** The one with that name or number, or NULL. */
struct koala_dictionary *koala_dictionary(struct koala *koala, struct slice name);
const struct koala_result *koala_result(const struct koala *koala, uint64_t number);

static inline struct koala_dictionary *koala_dictionaries(struct koala *koala, size_t *count)
{
	*count = koala->dictionaries.len / sizeof(struct koala_dictionary);
	return (struct koala_dictionary *)(void *)koala->dictionaries.data;
}

#endif
