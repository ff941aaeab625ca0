/*
 * group_list.h: lists the quorum groups (quorum_group.h) that this server takes part in, for all
 * workers.
 */
#ifndef SERVER_GROUP_LIST_H
#define SERVER_GROUP_LIST_H

#include "redis/commands/exchange.h"

struct quorum_group;
struct net_loop;

/* The groups last as long as the server. */
struct quorum_groups {
	struct quorum_group *_Atomic first; /* only added to, by the server's thread */
	/* of the worker that sends the calls; NULL when it is closed */
	struct net_loop *loop;
	char id[EXCHANGE_ID_SIZE]; /* of this server, drawn at the start; empty before */
};

#endif
