/* fleets.h: what workers share of the fleets (fleet.h) that a server is in. */
#ifndef SERVER_FLEETS_H
#define SERVER_FLEETS_H

#include "redis/commands/exchange.h"

struct fleet;
struct net_loop;

/* They last as long as the server. */
struct fleets {
	struct fleet *_Atomic first; /* only ever added to, by the thread of the server */
	struct net_loop *loop;       /* which talks to the store; NULL when it is closed */
	char id[EXCHANGE_ID_SIZE];   /* this server's; empty: none is drawn yet */
};

#endif
