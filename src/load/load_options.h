/* load_options.h: the options of a load test, and the counts of its result. */
#ifndef LOAD_OPTIONS_H
#define LOAD_OPTIONS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "client/dial.h"
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
	struct dial_tls tls; /* its context is shared by all connections */
	struct slice login;  /* a command that each connection sends first, see dial_log_in; or empty */
	const struct template *request;
	struct scan_rules replies;
	struct keys_options keys;
	size_t connections; /* at least `threads` */
	size_t pipeline;
	size_t threads;
	uint64_t requests;    /* after the warm-up; 0 if `duration_ns` ends the run */
	uint64_t duration_ns; /* after the warm-up */
	uint64_t warmup_ns;   /* requests of this time are sent but not counted */
	uint64_t rate;        /* requests a second, over all connections; 0 for a closed loop */
	uint64_t timeout_ns; /* without a byte from the server, until requests in flight are given up */
	uint64_t seed;
	pid_t server_pid; /* 0 if its CPU time is not measured */
};

/* Requests due (open loop) or sent (closed) after the warm-up. Every field is a uint64_t. */
struct load_counts {
	uint64_t sent;
	uint64_t answers[SCAN_OUTCOMES];
	uint64_t unanswered;  /* sent, without a reply */
	uint64_t unsent;      /* due, but no connection had capacity; open loop only */
	uint64_t disconnects; /* connections that were lost */
	uint64_t bytes_sent, bytes_received;
};

#endif
