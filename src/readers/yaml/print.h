/* print.h: prints a whole configuration as YAML. */
#ifndef READERS_PRINT_H
#define READERS_PRINT_H

#include "base/buffer.h"
#include "rules/model.h"

/**
 * Appends YAML that reads as the same configuration where names of files mean the same: what the
 * defaults are is left out. `defaults` is a new configuration.
 */
void yaml_print(const struct weir_config *config, const struct weir_config *defaults,
                struct buffer *out);

#endif
