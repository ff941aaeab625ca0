/* runner.h: sends one thread's share of the load, and measures the replies. */
#ifndef LOAD_RUNNER_H
#define LOAD_RUNNER_H

#include <pthread.h>
#include <stdatomic.h>

#include <weir/weir.h>

#include "load/load_options.h"
#include "stats/histogram.h"

struct runner_conn;

/* Shared by all runners. Times are CLOCK_MONOTONIC. */
struct runner_plan {
	const struct load_options *options;
	uint64_t start_ns;
	uint64_t measure_ns; /* end of the warm-up */
	uint64_t end_ns;     /* UINT64_MAX if the number of requests ends it */
	atomic_bool stop;
	int done; /* an eventfd: each runner adds 1 when it ends */
};

struct runner {
	struct runner_plan *plan;
	size_t index;
	pthread_t thread;
	int epoll;
	struct runner_conn *conns;
	size_t conn_count;          /* connections opened */
	size_t alive_count;         /* connections that have not been lost */
	size_t in_flight;           /* requests in flight */
	struct runner_conn **ready; /* a ring of connections that may have capacity for a request */
	size_t ready_first, ready_count;
	char *request_copies; /* one for each of `pipeline`, to send at once */
	char *read_bytes;     /* the bytes of one read */
	struct buffer wire;   /* with TLS: one write, encrypted */
	struct buffer plain;  /* with TLS: one read, decrypted */
	uint64_t sent;        /* with the warm-up's; also the number of the next request */
	uint64_t limit;       /* of `sent`; UINT64_MAX for none */
	bool is_measuring;    /* the warm-up is over, and `limit` known */
	uint64_t
	    last_progress_ns;   /* when bytes last arrived, or the first request in flight was sent */
	uint64_t last_reply_ns; /* 0 for none */
	struct keys keys;
	struct load_counts counts;
	struct histogram latency, from_send;
	char first_error[2 * SCAN_LINE_MAX];
};

/** Connects and logs in. Errors: EAUTH, EIO, ENOMEM; runner_close() in every case. */
int runner_open(struct runner *runner, struct runner_plan *plan, size_t index,
                struct weir_error *error);

/** Runs from plan->start_ns until all is answered, or plan->stop. A thread's function. */
void *runner_run(void *runner);

void runner_close(struct runner *runner);

#endif
