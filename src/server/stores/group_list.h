/* group_list.h: what workers share of the fleets (quorum_group.h) that a server is in. */
#ifndef SERVER_GROUP_LIST_H
#define SERVER_GROUP_LIST_H

#include "redis/commands/exchange.h"

struct quorum_group;
struct net_loop;

/* They last as long as the server. */
struct quorum_groups {
	struct quorum_group *_Atomic first; /* only ever added to, by the thread of the server */
	struct net_loop *loop;              /* which talks to the store; NULL when it is closed */
	char id[EXCHANGE_ID_SIZE];          /* this server's; empty: none is drawn yet */
};

#endif
