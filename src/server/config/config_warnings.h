/*
 * config_warnings.h: warnings about a configuration's stores, proxies, certificates, users and
 * settings that are legal, but unlikely meant.
 */
#ifndef SERVER_CONFIG_WARNINGS_H
#define SERVER_CONFIG_WARNINGS_H

#include <weir/engine.h>

#include "rules/model.h"
#include "server/config/settings.h"
#include "tls/context.h"

/* `warning` lives until it returns; its line is 0 where a flag says it. */
typedef weir_config_say config_warnings_report;

/**
 * Tells `say` of each, in the order of the file. `engine` is compiled from `config`, `tls` (NULL:
 * none) made of its files.
 */
void config_warnings_check(const struct weir_config *config, const weir_engine *engine,
                           const struct tls_context *tls, const struct settings_plan *plan,
                           config_warnings_report *say, void *context);

#endif
