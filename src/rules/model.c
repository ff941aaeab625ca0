#include "rules/model.h"

#include <stdlib.h>

struct weir_config *weir_private_config_new(void)
{
	struct weir_config *config = malloc(sizeof *config);

	if (config)
		*config = (struct weir_config){
		    .nodes = 1,
		    .prefix = RULES_KEY_PREFIX,
		    .store_timeout_ns = RULES_STORE_TIMEOUT_NS,
		    .denied_cache_ns = RULES_DENIED_CACHE_NS,
		    .store_poll_ns = RULES_STORE_POLL_NS,
		    .connections = RULES_CONNECTIONS,
		    .idle_http_ns = RULES_IDLE_HTTP_NS,
		};
	return config;
}

void weir_config_close(weir_config *config)
{
	if (!config)
		return;
	arena_free(&config->arena);
	free(config);
}
