/*
 * report_poll.h: the reports of this server's permits that other servers have taken in (reports.h).
 */
#ifndef SERVER_REPORT_POLL_H
#define SERVER_REPORT_POLL_H

#include "redis/commands/exchange.h"

#define REPORTS_NAME_SIZE 17 /* of a giver, in hexadecimal digits, and a NUL */

struct net_loop;

struct reports {
	struct algo_limit limit; /* a call must have one; it says nothing */
	uint64_t giver;          /* see struct decision_context */
	char name[REPORTS_NAME_SIZE];
	struct net_loop *loop; /* of the first worker; NULL when it is closed */
	/* The first worker's: */
	struct exchange exchange;
	bool is_fetching; /* the call is on its way, ... */
	bool is_done;   /* or has ended */
	uint64_t due_ns; /* the next call; monotonic */
};

#endif
