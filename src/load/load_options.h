/* job.h: defines the load to put on a server, and its counters. */
#ifndef LOAD_JOB_H
#define LOAD_JOB_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "load/dial.h"
#include "load/keys.h"
#include "load/scan.h"
#include "load/template.h"
#include "net/address.h"

#define LOAD_RATE_MAX        UINT64_C(100000000)
#define LOAD_CONNECTIONS_MAX 100000
#define LOAD_PIPELINE_MAX    10000
#define LOAD_THREADS_MAX     256
#define LOAD_DURATION_MAX_NS (UINT64_C(86400) * 1000000000)

struct load_options {
	struct net_address server;
	struct dial_trust trust; /* its context is shared by all connections */
	struct slice hello; /* a login that each connection begins with, see dial_greet; empty: none */
	const struct template *request;
	struct scan_rules replies;
	struct keys_options keys;
	size_t connections; /* at least `threads` */
	size_t pipeline;
	size_t threads;
	uint64_t requests;    /* 0 if `duration_ns` ends the run */
	uint64_t duration_ns; /* after the warm-up */
	uint64_t warmup_ns;   /* requests of this time are sent and not counted */
	uint64_t rate;        /* requests a second, over all connections; 0 for a closed loop */
	uint64_t timeout_ns;  /* after so long without a byte from the server, requests in flight are
	                         given up */
	uint64_t seed;
	pid_t server_pid; /* 0 if its CPU time is not measured */
};

/* Requests due (open loop) or sent (closed) after the warm-up. Every field is a uint64_t. */
struct load_counts {
	uint64_t sent;
	uint64_t answers[SCAN_OUTCOMES];
	uint64_t unanswered;  /* sent, without a reply */
	uint64_t unsent;      /* due, and no connection had room; open loop */
	uint64_t disconnects; /* connections that the server ended */
	uint64_t bytes_sent, bytes_received;
};

#endif
