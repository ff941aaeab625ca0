/* client_attributes.h: adds to the attributes of a proxied request the address of its client. */
#ifndef SERVER_CLIENT_ATTRIBUTES_H
#define SERVER_CLIENT_ATTRIBUTES_H

#include "engine/engine.h"
#include "server/requests/decider.h"

/** Copies the attributes with the address of the proxy's client as `ip`. Returns 0 or ENOMEM. */
int client_attributes_add_ip(struct decider *decider, const struct net_conn *conn,
                             const struct request *r, struct engine_attributes *out);

#endif
