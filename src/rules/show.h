/* show.h: limits and rules as the file has them, for listings. */
#ifndef RULES_SHOW_H
#define RULES_SHOW_H

#include "base/buffer.h"
#include "base/word.h"
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

/* The values of `on_store_failure`. */
extern const struct word rules_failures[];

#endif
