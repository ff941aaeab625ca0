/*
 * load.h: puts load on a server and measures how it answers.
 *
 * Closed loop (rate 0): each connection sends `pipeline` requests, waits for all their replies,
 * sends the next. A server that stalls gets fewer requests, so the time that callers would have
 * waited meanwhile is not seen.
 *
 * Open loop: request i is due at start + i / rate, whatever the server does; the next connection
 * with capacity sends it, and its latency counts from when it was due. Requests that find no
 * connection with capacity wait, and their latency still counts from when they were due.
 */
#ifndef LOAD_LOAD_H
#define LOAD_LOAD_H

#include <stdbool.h>
#include <stdint.h>

#include <weir/weir.h>

#include "load/load_options.h"
#include "load/scan.h"
#include "stats/histogram.h"

struct load_result {
	struct load_counts counts;
	/* Requests without a reply count in both, with the time that they had waited: at least that. */
	struct histogram latency;   /* ns from when a request was due */
	struct histogram from_send; /* ns from when it was sent; the same in a closed loop */
	uint64_t elapsed_ns;        /* from the end of the warm-up to the last reply */
	uint64_t client_cpu_ns, server_cpu_ns;
	bool interrupted;
	char first_error[2 * SCAN_LINE_MAX]; /* empty if there was none */
};

/**
 * Connects, runs, and fills in *result. SIGINT and SIGTERM, which stay blocked, end the run early;
 * so does a server that stops answering. The result then has what was measured so far. Errors,
 * before any request is sent: EAUTH, EIO, ENOMEM.
 */
int load_run(const struct load_options *options, struct load_result *result,
             struct weir_error *error);

#endif
