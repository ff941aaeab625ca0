/*
 * chunk_units.h: decides operations on a key while servers hold units of it as chunks.
 *
 * The state at Redis has only the units that were used. Units that servers hold are reserved beside
 * it: for other servers they are as good as used.
 */
#ifndef REDIS_CHUNK_UNITS_H
#define REDIS_CHUNK_UNITS_H

#include "algo/algo.h"

/* The reserved units of a key. */
struct chunk_units_reserved {
	uint64_t others_units; /* units that other servers hold */
	/*
	 * The end of the window, also if no units are reserved: a new one if none is open. For a
	 * bucket, when this server's units count as used.
	 */
	uint64_t ends_ns;
};

/*
 * The settlement of a chunk, which a command carries: the server reports how many of the units that
 * it held are used, returns the others, and reserves units anew. Times are by Redis's clock.
 */
struct chunk_settlement {
	/* Set before the command is written: */
	uint64_t entry_id;          /* of the server's entry, or 0 not to change it */
	uint64_t settlement_number; /* counts the settlements of the entry */
	uint64_t used_units;        /* units that the server has granted from its chunks so far */
	/* For a bucket: the state that would follow from the granted units not yet reported alone. */
	struct algo_state state_to_report;
	uint64_t wanted_units; /* to be reserved from now on */
	uint64_t lifetime_ns;  /* of the reservation; a window's lasts until the window ends */
	bool may_have_chunks; /* there may be chunks, so the command needs a script that handles them */
	bool all_or_nothing; /* all requests are granted or none, because another command of this server
	                   under way holds units that these may need */
	/* Set by Redis's answer: */
	struct chunk_units_reserved reserved;
	uint64_t held_units;     /* units that this server holds from now on */
	bool is_outdated;        /* a newer settlement came first, so this one changed nothing */
	struct algo_state state; /* after the command, as if nobody held units */
};

/** Whether servers can hold units of a limit. */
bool chunk_units_supported(const struct algo_limit *limit);

/**
 * Applies a call to `state` while others hold units. Returns the time by which a refund identifies
 * the units taken, or 0 if none were taken.
 */
uint64_t chunk_units_step(const struct algo_limit *limit, const struct algo_call *call,
                          const struct algo_time *time, const struct chunk_units_reserved *reserved,
                          struct algo_state *state, struct algo_decision *out);

/** The time without requests after which a server returns its units. */
uint64_t chunk_units_idle_ns(const struct algo_limit *limit);
/** The lifetime of a bucket's chunk. */
uint64_t chunk_units_lifetime_ns(const struct algo_limit *limit);

#endif
