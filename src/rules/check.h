/* check.h: checks a complete configuration, in whichever language its files are written. */
#ifndef RULES_CHECK_H
#define RULES_CHECK_H

#include "rules/model.h"

/**
 * Adds remarks about limits and rules of equal names, rules that no request can match, and rules
 * that are never reached. Returns 0, EINVAL if a remark is an error, or ENOMEM.
 */
int rules_check(struct weir_config *config);

#endif
