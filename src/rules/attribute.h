/* attribute.h: records the attributes that rules use, so that protocols know which to read. */
#ifndef RULES_ATTRIBUTE_H
#define RULES_ATTRIBUTE_H

#include "rules/model.h"

/**
 * A rule asks for `attribute`, which is in the config's arena: one that requests carry through a
 * proxy joins the config's list. Errors: EINVAL with "expected …, found …", ENOMEM.
 */
int attribute_use(struct weir_config *config, const char *attribute, struct weir_error *error);

#endif
