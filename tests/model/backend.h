/*
 * backend.h: clients that retry, a limit, and a server that can be overloaded, in virtual time.
 *
 * Requests arrive by chance and do not wait for one another. A client that is denied, or has no
 * answer after its patience, asks again, up to `attempts` times in all. The server works on calls
 * that their clients have given up, too: this keeps an overload alive when its cause is gone.
 *
 * A seed decides everything.
 */
#ifndef MODEL_BACKEND_H
#define MODEL_BACKEND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/weir.h>

#include "draw.h"

#define BACKEND_ROUND_TRIP_NS UINT64_C(1000000)

struct backend_options {
	uint64_t seed;
	unsigned workers;
	service_time *service;
	double mean_ns;
	double strain; /* a call takes so much longer for each `workers` in the server beyond those at work */
	unsigned attempts;
	uint64_t patience_ns;
	uint64_t backoff_ns; /* the most of the first pause, doubled for the next; 0 means no pause */
	bool notifies;       /* the limit learns at once that a client gave up, not when the server ends */
	double silent;       /* this share of permits is never reported */
};

/* What arrives: `load` is a part of the capacity, `low` the share that has the second priority. */
struct backend_demand {
	double load, low;
	uint8_t priorities[2];
};

/* The limit in front of the server. Without `allows` there is none. */
struct backend_limit {
	void *context;
	bool (*allows)(void *context, uint64_t priority, uint64_t now_ns, struct weir_permit *permit);
	void (*report)(void *context, const struct weir_permit *permit, enum weir_outcome outcome,
	               uint64_t now_ns);
};

/* Work since the beginning, in mean service times: of first attempts, and answered in time. */
struct backend_work {
	double asked, done;
};

struct backend;

/** NULL if memory is short. The backend begins without demand. */
struct backend *backend_open(const struct backend_options *options, struct backend_limit limit);
void backend_close(struct backend *backend);

void backend_set_demand(struct backend *backend, struct backend_demand demand);
/** Others than the options have, from now on. The capacity that `load` refers to stays. */
void backend_set_server(struct backend *backend, unsigned workers, double mean_ns);

/** Plays all that happens before a time, which counts from the beginning. */
void backend_run_until(struct backend *backend, uint64_t until_ns);
struct backend_work backend_work(const struct backend *backend);

#endif
