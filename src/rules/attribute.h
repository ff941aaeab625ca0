/* attribute.h: records the attributes that rules use, so that protocols know which to read. */
#ifndef RULES_ATTRIBUTE_H
#define RULES_ATTRIBUTE_H

#include "rules/model.h"

/**
 * Records that a rule uses `attribute`, which is in the config's arena. An attribute of a proxied
 * request joins config->forwarded. Errors: EINVAL with "expected …, found …", ENOMEM.
 */
int attribute_use(struct weir_config *config, const char *attribute, struct weir_error *error);

#endif
