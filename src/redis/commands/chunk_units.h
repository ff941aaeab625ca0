/*
 * units.h: the units of a key that servers hold as chunks: in a command, in Redis's answer, and in
 * a step of the algorithm.
 *
 * The state at Redis has the units that were used. Units that servers hold are reserved beside it:
 * for other servers they are as good as used.
 */
#ifndef REDIS_CHUNK_UNITS_H
#define REDIS_CHUNK_UNITS_H

#include "algo/algo.h"

/* The units of a key that servers hold as chunks. */
struct chunk_units_reserved {
	uint64_t others; /* units that other servers hold */
	uint64_t
	    until_ns; /* the end of the window; for a bucket, when this server's units count as used */
};

/* A step on a key with chunks carries this. Times are Redis's. */
struct command_units {
	/* Before it is written: */
	uint64_t id;           /* of the server's entry, or 0 to leave that alone */
	uint64_t number;       /* of the step, among those that said something of it */
	uint64_t used;         /* units that the server has granted by itself so far */
	struct algo_state own; /* of a bucket: what those alone would have made of it that Redis may
	                          not know yet */
	uint64_t want;         /* units that it wants to hold from then on */
	uint64_t lifetime_ns;  /* and for how long; of a window until that ends */
	bool is_known;         /* there may be chunks: the script has to know of them */
	bool is_whole;         /* all requests are granted or none: another step of this server that is
	                          under way holds units that these may need */
	/* Redis's answer: */
	struct chunk_units_reserved reserved;
	uint64_t held;           /* units that this server holds */
	bool is_old;             /* a newer step of this server came first: nothing was said */
	struct algo_state state; /* after the step, as if nobody held units */
};

/** Whether servers can hold units of a limit. */
bool chunk_units_supported(const struct algo_limit *limit);

/**
 * A step on `state` while others hold units. Returns the time by which a refund names what it took;
 * 0 if it has taken nothing.
 */
uint64_t chunk_units_step(const struct algo_limit *limit, const struct algo_call *call,
                          const struct algo_time *time, const struct chunk_units_reserved *reserved,
                          struct algo_state *state, struct algo_decision *out);

/** After how long without requests a server gives units back. */
uint64_t chunk_units_idle_ns(const struct algo_limit *limit);
/** How long a server may use the units of a bucket before it has to ask again. */
uint64_t chunk_units_lifetime_ns(const struct algo_limit *limit);

#endif
