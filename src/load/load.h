/*
 * load.h: puts load on a server and measures how it answers.
 *
 * Closed loop (rate 0): each connection sends `pipeline` requests, waits for all
 * their replies, sends the next. A server that stalls is asked less, so what
 * callers would have waited meanwhile is not seen.
 *
 * Open loop: request i is due at start + i / rate, whatever the server does; the
 * next connection with room takes it, and its latency counts from when it was
 * due. Requests that find no room wait and keep that time.
 */
#ifndef LOAD_LOAD_H
#define LOAD_LOAD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include <weir/weir.h>

#include "load/keys.h"
#include "load/scan.h"
#include "load/template.h"
#include "net/address.h"
#include "stats/histogram.h"

#define LOAD_RATE_MAX        UINT64_C(100000000)
#define LOAD_CONNECTIONS_MAX 100000
#define LOAD_PIPELINE_MAX    10000
#define LOAD_THREADS_MAX     256
#define LOAD_DURATION_MAX_NS (UINT64_C(86400) * 1000000000)

struct load_options {
	struct net_address server;
	const struct template *request;
	struct scan_rules replies;
	struct keys_options keys;
	size_t connections; /* at least `threads` */
	size_t pipeline;
	size_t threads;
	uint64_t requests;    /* 0: by duration */
	uint64_t duration_ns; /* after the warm-up */
	uint64_t warmup_ns;   /* its requests are sent and not counted */
	uint64_t rate;        /* a second, over all connections; 0: closed loop */
	uint64_t timeout_ns;  /* without a byte from the server, what is in flight is given up */
	uint64_t seed;
	pid_t server_pid; /* 0: its CPU time is not measured */
};

/* Of requests due (open loop) or sent (closed) after the warm-up. */
struct load_counts {
	uint64_t sent;
	uint64_t answers[SCAN_OUTCOMES];
	uint64_t unanswered;  /* sent, and nothing came */
	uint64_t unsent;      /* due, and no connection had room; open loop */
	uint64_t disconnects; /* connections that the server ended */
	uint64_t bytes_sent, bytes_received;
};

struct load_result {
	struct load_counts counts;
	/* Those without a reply are in both with the time that they had waited: at least that. */
	struct histogram latency;   /* ns from when a request was due */
	struct histogram from_send; /* ns from when it was sent; the same in a closed loop */
	uint64_t elapsed_ns;        /* from the end of the warm-up to the last reply */
	uint64_t client_cpu_ns, server_cpu_ns;
	bool interrupted;
	char trouble[2 * SCAN_LINE_MAX]; /* the first error of any kind; empty: none */
};

/**
 * Connects, runs, and fills in *result. SIGINT and SIGTERM end it early, with
 * what was measured until then; they stay blocked. A server that falls silent
 * ends it as well. Errors, before anything is sent: EIO, ENOMEM.
 */
int load_run(const struct load_options *options, struct load_result *result,
             struct weir_error *error);

#endif
