/*
 * worker_parts.h: defines a worker, a thread with an event loop, and its intake, the requests that
 * it has read and not decided yet. A worker is made of parts: a function gets only what it needs.
 */
#ifndef SERVER_WORKER_PARTS_H
#define SERVER_WORKER_PARTS_H

#include "server/access/client_login.h"
#include "server/admin/event_streams.h"
#include "server/loop/listener_tls.h"
#include "server/requests/decider.h"
#include "server/waiting/suspend.h"

/* Requests that are read and not decided yet. */
struct intake {
	bool iteration_has_begun;
	uint64_t start_ns; /* when the first of their bytes were read */
	struct work *works;
	size_t count;
	size_t reply_bytes; /* about the bytes that all replies will have */
	struct request first_request;
	/*
	 * where the next request is parsed: `first_request`, or memory of the arena while works refer
	 * to that; NULL if memory is short
	 */
	struct request *next_request;
	uint64_t opened_count;      /* number of connections so far */
	struct codec_bounds bounds; /* sessions point to it */
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
	struct secret_keeper *keeper; /* in the first worker alone, if there is a store */
};

#endif
