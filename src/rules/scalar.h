/* scalar.h: prints texts and JSON as values of YAML. */
#ifndef RULES_SCALAR_H
#define RULES_SCALAR_H

#include "base/buffer.h"

/** Appends text, in quotes where it would mean something else without. */
void scalar_add(struct buffer *out, struct slice text);
/** Appends JSON, with what YAML does not take as it is escaped. */
void scalar_add_json(struct buffer *out, struct slice json);

#endif
