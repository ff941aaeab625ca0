/* client_ip.h: whose request it is, behind proxies. */
#ifndef SERVER_CLIENT_IP_H
#define SERVER_CLIENT_IP_H

#include "base/network/ip.h"
#include "base/slice.h"

/**
 * `peer` is who connected, `forwarded` the value of X-Forwarded-For. Each
 * trusted proxy has appended whom it saw, so hops are believed from the right
 * for as long as the one who reported them is trusted: the answer is the first
 * that is not trusted, or the leftmost. A hop that is no address ends the walk at
 * the one who reported it, so that a client can't choose its own key.
 */
struct ip client_ip(const struct ip *peer, struct slice forwarded, const struct ip_range *trusted,
                    size_t trusted_count);

#endif
