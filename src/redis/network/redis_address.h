/* redis_address.h: declares a server's address, of IPv4, IPv6 or a Unix socket, as connect(2) needs
 * it. */
#ifndef REDIS_ADDRESS_H
#define REDIS_ADDRESS_H

#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

/* Equal addresses have equal bytes: what an address does not use is zero. */
struct redis_address {
	socklen_t len;
	union {
		struct sockaddr any;
		struct sockaddr_in v4;
		struct sockaddr_in6 v6;
		struct sockaddr_un local;
	};
};

#endif
