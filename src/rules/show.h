/* show.h: prints limits and rules as JSON for listings, under the names of the rule file. */
#ifndef RULES_SHOW_H
#define RULES_SHOW_H

#include "algo/parameter.h"
#include "base/buffer.h"
#include "base/text/word.h"
#include "rules/model.h"

/**
 * Appends the parameters of a limit that was read from a file as fields of a
 * JSON object, under the names that they have there, defaults filled in:
 * "algorithm":"NAME","rate":"5/s","burst":10,…
 */
void rules_show_limit(const struct rules_limit *limit, struct buffer *out);

/** Appends a rule as a JSON object, its limits with their parameters. */
void rules_show_rule(const struct weir_config *config, const struct rules_rule *rule,
                     struct buffer *out);

/** Appends the value of a parameter as a file has it, without quotes. */
void rules_show_value(const struct algo_parameter *parameter,
                      const struct weir_limit_options *options, struct buffer *out);

/** The word of a value, or "". */
const char *rules_word(const struct word *words, unsigned value);

/* The values of `on_store_failure`. */
extern const struct word rules_failures[];

#endif
