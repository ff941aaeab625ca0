/*
 * report_poll.h: defines what reports.c needs to fetch reports from a store: those on permits of
 * this server that clients have sent to other servers.
 */
#ifndef SERVER_REPORT_POLL_H
#define SERVER_REPORT_POLL_H

#include "redis/commands/exchange.h"

#define REPORTS_NAME_SIZE 17 /* of a giver: hexadecimal digits and a NUL */

struct net_loop;

struct reports {
	struct algo_limit placeholder; /* a call must have a limit */
	uint64_t giver;                /* the id of this server, see struct decision_context */
	char name[REPORTS_NAME_SIZE];
	struct net_loop *loop; /* of the first worker; NULL when it is closed */
	/* Used by the first worker alone: */
	struct exchange exchange;
	bool is_fetching; /* the call is under way */
	bool is_done;     /* the call has ended */
	uint64_t due_ns;  /* when to call next; monotonic */
};

#endif
