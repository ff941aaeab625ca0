#include "server/requests/decider.h"

#include "rules/model.h"

void decider_advance(struct decider *decider)
{
	if (server_config_advance(&decider->config)) {
		decider->was_reloaded = true;
		decider->user = NULL; /* it belongs to the configuration before */
	}
	decider->forwarded = decider->config->rules->forwarded;
	decider->context.nodes = decider->config->rules->nodes;
}
