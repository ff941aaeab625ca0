/*
 * backend.h: clients that retry, a limit, and a server that can be overloaded, in virtual time.
 *
 * Requests come from `clients`, each of which thinks, sends a request, and waits for its answer (a
 * closed loop), or they arrive by chance and do not wait for one another (an open loop). An attempt
 * comes to nothing if the limit denies it, if the server is full, or if there is no answer after
 * the client's patience. Then the client pauses and makes the next attempt, up to `attempts` times
 * in all. The server works on abandoned attempts, too: this can keep an overload alive when its
 * cause is gone.
 *
 * A seed decides everything.
 */
#ifndef SIMULATE_BACKEND_H
#define SIMULATE_BACKEND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/weir.h>

#include "simulate/closed_loop/service.h"

#define BACKEND_ROUND_TRIP_NS UINT64_C(1000000)

struct backend_options {
	uint64_t seed;
	unsigned workers;
	service_time *service;
	double mean_ns;
	double strain; /* a call takes so much longer for each `workers` in the server beyond those at
	                  work */
	bool shares; /* all calls in the server are served at once, the more the slower; otherwise first
	                come, first served */
	unsigned attempts;
	uint64_t patience_ns;
	uint64_t backoff_ns; /* the most of the first pause, doubled for the next; 0 means no pause */
	bool notifies;    /* the limit learns at once that a client gave up, not when the server ends */
	double silent;    /* this share of permits is never reported */
	unsigned clients; /* of a closed loop; 0 means an open loop, by backend_set_demand */
	double think_ns;  /* on average */
	uint64_t attempts_max; /* of all clients together; 0 means no bound */
};

/* `load` is a part of the capacity, or 0 in a closed loop; `low` is the share of requests that has
 * the second priority. */
struct backend_demand {
	double load, low;
	uint8_t priorities[2];
};

/* An attempt, as the limit sees it. */
struct backend_attempt {
	uint32_t client; /* 0 in an open loop */
	uint8_t priority;
	uint64_t now_ns;
	struct weir_permit permit; /* set by the limit; without an ID there is nothing to report */
	uint64_t wait_ns; /* set by the limit: it is to wait so long before the server has it */
};

/* The limit in front of the server. Without `allows` there is none. */
struct backend_limit {
	void *context;
	bool (*allows)(void *context, struct backend_attempt *attempt);
	void (*report)(void *context, const struct weir_permit *permit, enum weir_outcome outcome,
	               uint64_t now_ns);
	/** An answer came in time, so long after the first attempt. May be NULL. */
	void (*answered)(void *context, uint64_t latency_ns);
};

/* Counts since the beginning. Work is in mean service times, of an idle server. */
struct backend_work {
	double asked, done; /* of first attempts, and of those that were answered in time */
	uint64_t requests, attempts, answered;
	uint64_t denied, refused, abandoned; /* attempts: by the limit, a full server, the client */
	double worked_ns, wasted_ns;         /* by workers, and of it for abandoned attempts */
};

enum backend_status {
	BACKEND_OK,
	BACKEND_TOO_MANY_CALLS,
	BACKEND_TOO_MANY_ATTEMPTS,
	BACKEND_NO_MEMORY
};

struct backend;

/** NULL if memory is short. In an open loop the backend begins without demand. */
struct backend *backend_open(const struct backend_options *options, struct backend_limit limit);
void backend_close(struct backend *backend);

void backend_set_demand(struct backend *backend, struct backend_demand demand);
/** Replaces the pause of the closed loop's clients, which was not 0, also for those that think now.
 */
void backend_set_think(struct backend *backend, double think_ns);
/** Others than the options have, from now on. The capacity that `load` refers to stays. */
void backend_set_server(struct backend *backend, unsigned workers, double mean_ns);

/** Plays all that happens before a time, which counts from the beginning, or stops at an error. */
enum backend_status backend_run_until(struct backend *backend, uint64_t until_ns);
struct backend_work backend_work(const struct backend *backend);
/** The number of calls in the server. */
unsigned backend_inside(const struct backend *backend);

#endif
