/* client_ip.h: finds the address of a client behind proxies, by X-Forwarded-For. */
#ifndef SERVER_CLIENT_IP_H
#define SERVER_CLIENT_IP_H

#include "base/network/ip.h"
#include "base/slice.h"

/**
 * Returns the first address from the right in `forwarded`, the value of X-Forwarded-For, that is
 * not trusted; or the leftmost one. Each trusted proxy has appended the address of its peer, so an
 * entry counts only if the proxy that appended it is trusted. An entry that is no address ends the
 * search at that proxy, so that a client can't choose its own key.
 */
struct ip client_ip(const struct ip *peer, struct slice forwarded, const struct ip_range *trusted,
                    size_t trusted_count);

#endif
