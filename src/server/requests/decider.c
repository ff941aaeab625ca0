/* decider.c: moves the part of a worker that decides requests to a reloaded configuration. */
#include "server/requests/decider.h"

#include "rules/model.h"

void decider_use_newest_config(struct decider *decider)
{
	if (server_config_advance(&decider->config)) {
		decider->config_was_replaced = true;
		decider->user = NULL; /* it belongs to the configuration before */
	}
	decider->forwarded = decider->config->rules->forwarded;
	decider->context.nodes = decider->config->rules->nodes;
}
