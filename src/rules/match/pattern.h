/* pattern.h: matches names with patterns such as `api-*`. */
#ifndef RULES_PATTERN_H
#define RULES_PATTERN_H

#include <stdbool.h>

/** Whether the pattern stands for `name`: '*' is any text, or none; other bytes are themselves. */
bool pattern_matches(const char *pattern, const char *name);

#endif
