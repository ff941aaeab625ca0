/*
 * units.h: what a step says of its server's chunk, and what Redis answers; and the state of a key of
 * which servers hold chunks.
 *
 * The state at Redis is what was used. What servers hold is reserved beside it: for the others that is
 * as good as used.
 */
#ifndef REDIS_UNITS_H
#define REDIS_UNITS_H

#include "algo/algo.h"

/* The units of a key that servers hold as chunks. */
struct units_reserved {
	uint64_t others;   /* units that other servers hold */
	uint64_t
	    until_ns; /* the end of the window; for a bucket, when this server's units count as used */
};

/* A step on a key with chunks carries this. Times are Redis's. */
struct command_units {
	/* Before it is written: */
	uint64_t id;          /* of the server's entry; 0: it says nothing of it */
	uint64_t number;      /* of the step, among those that said something of it */
	uint64_t used;        /* units that the server has granted by itself so far */
	struct algo_state own; /* of a bucket: what those alone would have made of it that Redis may
	                          not know yet */
	uint64_t want;        /* units that it wants to hold from then on */
	uint64_t lease_ns;    /* and for how long; of a window until that ends */
	bool is_known;        /* there may be chunks: the script has to know of them */
	bool is_whole;        /* all requests are granted or none: another step of this server that is
	                         under way holds units that these may need */
	/* Redis's answer: */
	struct units_reserved reserved;
	uint64_t held;        /* units that this server holds */
	bool is_old;          /* a newer step of this server came first: nothing was said */
	struct algo_state state; /* after the step, as if nobody held units */
};

/** Whether servers can hold units of a limit. */
bool units_apply(const struct algo_limit *limit);

/**
 * A step on `state` while others hold units. Returns the time by which a refund names what it took;
 * 0 if it has taken nothing.
 */
uint64_t units_step(const struct algo_limit *limit, const struct algo_call *call,
                    const struct algo_time *time, const struct units_reserved *reserved,
                    struct algo_state *state, struct algo_outcome *out);

/** How long a server keeps units that nobody asks for. */
uint64_t units_idle_ns(const struct algo_limit *limit);
/** How long a server may use the units of a bucket before it has to ask again. */
uint64_t units_lease_ns(const struct algo_limit *limit);

#endif
