/* worker_parts.h: the parts of a worker, each of which is given to the functions that need it
 * alone. */
#ifndef SERVER_WORKER_PARTS_H
#define SERVER_WORKER_PARTS_H

#include "server/access/client_login.h"
#include "server/admin/event_streams.h"
#include "server/loop/listener_tls.h"
#include "server/requests/decider.h"
#include "server/waiting/suspend.h"

/* The batch: requests that are read, and not decided yet. */
struct intake {
	bool in_turn;
	uint64_t start_ns; /* when the first bytes of the batch were read */
	struct work *works;
	size_t count;
	size_t coming;           /* about how many bytes of replies */
	struct request parsed;   /* what the first requests of a batch are parsed into */
	struct request *parsing; /* that, or one in the arena since that is a work's whole; or NULL */
	uint64_t opened;         /* connections so far */
	struct codec_bounds limits; /* sessions hold on to it */
};

struct worker {
	struct worker_shared *shared;
	size_t index;
	struct net_loop *loop;
	pthread_t thread;
	bool running;
	struct intake intake;
	struct decider decider;
	struct waiting waiting;
	struct admission admission;
	struct login_queue login_queue;
	struct event_streams event_streams;
	struct listener_tls listener_tls;
	struct store_clients store_clients;
	struct submit_spares spares;
	struct secret_keeper *keeper; /* of the first worker alone, where there is a store */
};

#endif
