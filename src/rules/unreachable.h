/*
 * unreachable.h: warns of rules that no request can match, or that an earlier rule always answers.
 */
#ifndef RULES_UNREACHABLE_H
#define RULES_UNREACHABLE_H

#include "rules/model.h"

/** Warns of rules that no request meets, and of rules behind one that answers for them. 0 or
 * ENOMEM. */
int rules_warn_of_unreachable(struct weir_config *config);

#endif
