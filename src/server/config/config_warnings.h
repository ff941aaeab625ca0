/*
 * config_warnings.h: warns of stores, proxies, certificates, users and settings in a configuration
 * that are valid but hardly intended.
 */
#ifndef SERVER_CONFIG_WARNINGS_H
#define SERVER_CONFIG_WARNINGS_H

#include <weir/engine.h>

#include "rules/model.h"
#include "server/config/settings.h"
#include "tls/context.h"

/* `warning` lives until the function returns; line 0 means that a flag causes it. */
typedef weir_config_say config_warning_callback;

/**
 * Calls `report` for each warning, in the order of the file. `engine` is compiled from `config`;
 * `tls` has the certificates, or is NULL.
 */
void config_warnings_check(const struct weir_config *config, const weir_engine *engine,
                           const struct tls_context *tls, const struct settings_plan *plan,
                           config_warning_callback *report, void *context);

#endif
