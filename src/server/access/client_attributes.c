/* client_attributes.c: adds to the attributes of a proxied request the address of its client. */
#include "server/access/client_attributes.h"

#include <string.h>

#include "rules/model.h"
#include "server/access/client_ip.h"

int client_attributes_add_ip(struct decider *decider, const struct net_conn *conn,
                             const struct request *r, struct engine_attributes *out)
{
	const struct weir_config *rules = decider->config->rules;
	struct ip ip = client_ip(net_conn_peer(conn), r->forwarded_for, rules->trusted_proxies,
	                         rules->trusted_proxy_count);
	size_t n = 0;
	struct weir_attribute *attributes =
	    arena_array(&decider->arena, r->attribute_count + 1, sizeof *attributes);
	char *text = arena_alloc(&decider->arena, IP_TEXT_MAX);

	if (!attributes || !text)
		return WEIR_ENOMEM;
	for (size_t i = 0; i < r->attribute_count; i++)
		if (strcmp(r->attributes[i].name, "ip") != 0)
			attributes[n++] = r->attributes[i];
	attributes[n++] = (struct weir_attribute){"ip", text, ip_format(&ip, text)};
	out->items = attributes;
	out->count = n;
	return WEIR_OK;
}
