/* unmet.h: rules that decide nothing, whatever is asked. */
#ifndef RULES_UNMET_H
#define RULES_UNMET_H

#include "rules/model.h"

/** Warns of rules that no request meets, and of rules behind one that answers for them. 0 or
 * ENOMEM. */
int rules_warn_of_unmet(struct weir_config *config);

#endif
