/*
 * algorithm.h: the description of an algorithm, from which everything else about it comes.
 *
 * An algorithm is a file NAME.c that defines `algorithm_NAME`, and a line in the list of
 * meson.build. The checks of options, the readers of rules, listings, the simulator's
 * comparison, the tables of the documents and the dispatch of steps read the description.
 */
#ifndef ALGO_ALGORITHM_H
#define ALGO_ALGORITHM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/weir.h>

#include "algo/parameter.h"
#include "algo/record_kinds.h"

struct algo_call;
struct algo_limit;
struct algo_decision;
struct algo_state;
struct algo_time;

#define ALGO_PARAMETERS_MAX 24

/* The pure step of an algorithm, see algo_step. */
typedef bool algorithm_step(const struct algo_limit *limit, const struct algo_call *call,
                            const struct algo_time *time, struct algo_state *state,
                            struct algo_decision *out);

/* A table remembers this of parameters, to convert states that were written under them. */
struct algo_layout {
	uint32_t first, second;
};

/* In place of an end: the use was cut, and the state does not tell by how much. */
#define ALGO_CUT UINT64_MAX

struct algorithm {
	const char *name; /* as rule files have it, and as its field in struct weir_limit_options */
	enum weir_algorithm id;
	struct algo_parameter parameters[ALGO_PARAMETERS_MAX + 1]; /* in the order of listings */
	uint16_t own, own_size; /* its own options, see parameter_own; 0 if it has none */
	const char
	    *sample; /* parameters at some 100 a minute, by which it is compared, or NULL */

	enum algo_record
	    record;          /* how states are kept that are wider than a word; without them, `step` */
	bool paced;          /* a request may have to wait for its start */
	bool judges;         /* by outcomes: its permits are reported */
	bool draws;          /* it decides by algo_call.draw and keeps no states */
	bool retry_is_estimate; /* retry_after_ns is not exact */
	bool pays_later;     /* a request does not wait for its own cost, but the next one does: two
	                        charges of one request are not as one of both */
	bool unordered;      /* a higher rate may deny a request that a lower one allows */

	/**
	 * From options in which defaults are filled in, and numbers are in their ranges (an explicit
	 * zero is 0, not WEIR_ZERO). `limit` has what follows from a rate: quota, period_ns and
	 * window_ns. Sets what differs, and the algorithm's own parameters; farthest_ns only where
	 * states reach further ahead than window_ns.
	 */
	int (*init)(struct algo_limit *limit, const struct weir_limit_options *options,
	            struct weir_error *error);

	/** Optional: the own options that the preset in `options` stands for. */
	const void *(*preset)(const struct weir_limit_options *options);

	/* For states of one time and one word, see algo_step. */
	algorithm_step *step;
	const char *word;   /* what the word counts, or NULL; tests/vectors/README.md */
	unsigned word_less; /* and how much less than that it is */
	/**
	 * Optional: state->until_ns has been cut back to window_ns from now; makes it the furthest that
	 * the limit can put now.
	 */
	void (*cut)(const struct algo_limit *limit, struct algo_state *state);
	/** Optional, all or none: what to remember of parameters, ... */
	struct algo_layout (*layout)(const struct algo_limit *limit);
	/**
	 * ... and a state written under `from` (NULL if not known) as `limit` would have it: until
	 * `since_ns`, at most `now_ns`, the use leaked as `from` says, and from then on as `limit`
	 * says.
	 */
	struct algo_converted (*convert)(const struct algo_limit *limit, const struct algo_layout *from,
	                                 uint64_t since_ns, uint64_t now_ns, struct algo_state state);
	/**
	 * Makes `then` what `convert` needs of a limit with the parameters of a note, for a state with
	 * all of the use. It has its algorithm and period already. Returns false if the note
	 * is not enough.
	 */
	bool (*restore)(const struct algo_limit *limit, const struct algo_layout *layout,
	                struct algo_limit *then);

	/**
	 * Optional: how long a request of that cost waits at least, which is on a key that is as new.
	 * Without it a request does not wait for its own cost.
	 */
	uint64_t (*least_wait_ns)(const struct algo_limit *limit, uint64_t cost);

	/** Optional: before `next` takes over from `limit`, and after. */
	void (*before_takeover)(const struct algo_limit *limit, struct algo_limit *next);
	void (*after_takeover)(const struct algo_limit *limit, struct algo_limit *next);

	/**
	 * Optional: what else is different in the part of a limit that each of `nodes` servers counts
	 * by itself. `own` has the counts of `whole` divided by `nodes`; in `whole` defaults are filled
	 * in.
	 */
	void (*divide)(struct weir_limit_options *own, const struct weir_limit_options *whole,
	               uint64_t nodes);

	/** Optional, both or none: a share of requests that can be changed while it runs. */
	void (*set_share)(const struct algo_limit *limit, double share);
	/** Optional: puts what has changed since into the options that it was made from. */
	void (*amend)(const struct algo_limit *limit, struct weir_limit_options *options);
};

/** The algorithm with that value, or NULL. */
const struct algorithm *algorithm_of(enum weir_algorithm id);

/** The names of algorithms, by value. */
const struct word *algorithm_words(void);

/** All algorithms in the order of the list; NULL past the last. */
const struct algorithm *algorithm_listed(size_t index);

/**
 * Checks all that can be known of options without their algorithm's own `init`. Errors as
 * weir_limit_open, with messages that begin with the parameter's name: "rate: expected …".
 */
int algorithm_check(const struct weir_limit_options *options, struct weir_error *error);

/**
 * Fills in the defaults of the preset and of the algorithm; an explicit zero is 0 then. From then
 * on `options` points to `own`, if the algorithm has options of its own.
 */
void algorithm_resolve(struct weir_limit_options *options, union algo_own *own);

/* The options of a limit that denies every request and keeps no state. */
extern const struct weir_limit_options algorithm_denies_all;

/* The own options of an algorithm. */
#define ALGO_OWN(algorithm)                                                                        \
	.own = offsetof(struct weir_limit_options, algorithm),                                         \
	.own_size = sizeof(struct weir_##algorithm##_options)

/* For `init` of algorithms. */

/** Windows of the calendar. Errors as weir_limit_open. */
int algo_use_calendar(struct algo_limit *limit, const struct weir_limit_options *options,
                      uint64_t period, enum weir_unit unit, struct weir_error *error);

/** How wide rows of at least so many cells are. */
unsigned algo_width(uint64_t cells);

#endif
