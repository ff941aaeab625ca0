/*
 * algorithm.h: declares the description of an algorithm, and the list of all algorithms.
 *
 * An algorithm is a file NAME.c that defines `algorithm_NAME`, and a line in the list of
 * meson.build. All other code finds algorithms through their descriptions: the checks of options,
 * the readers of rules, listings, the simulator's comparison, the tables of the documents, and the
 * dispatch of steps.
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

/*
 * The parameters under which a state was written, packed by their algorithm. A table stores it for
 * each generation of a limit, so that states can be converted after a reload.
 */
struct algo_layout {
	uint32_t first, second;
};

/* In place of the end of a state: its units were cut, and it is unknown by how many. */
#define ALGO_CUT UINT64_MAX

struct algorithm {
	const char *name; /* in rule files, and of the field of its own options (weir_limit_options) */
	enum weir_algorithm id;
	struct algo_parameter parameters[ALGO_PARAMETERS_MAX + 1]; /* in the order of listings */
	uint16_t own, own_size; /* of its own options, see ALGO_OWN; 0 if it has none */
	const char *sample; /* parameters for the simulator's comparison, some 100 a minute, or NULL */

	enum algo_record record; /* the form of its wide states; algorithms without one have a `step` */
	/* The fate of a request that is never reported, or NULL for limits without reports. */
	const char *unreported;
	bool paced;          /* a request may have to wait for its start */
	bool judges;         /* it decides by outcomes of requests: its permits are reported */
	bool draws;          /* it decides by algo_call.draw, and has no states */
	bool retry_is_estimate; /* retry_after_ns is not exact */
	bool pays_later;     /* a request does not wait for its own cost, but the next one does: so two
	                        charges differ from one charge of both costs */
	bool unordered;      /* a higher rate may deny a request that a lower one allows */

	/**
	 * Sets the algorithm's parameters in `limit`. `options` has its defaults filled in and its
	 * numbers checked (an explicit zero is 0, not WEIR_ZERO). `limit` has quota, period_ns and
	 * window_ns from the rate: sets those that differ, and farthest_ns if a state can end later
	 * than window_ns after now.
	 */
	int (*init)(struct algo_limit *limit, const struct weir_limit_options *options,
	            struct weir_error *error);

	/** Optional: the algorithm's own options with the values of the preset that `options` names. */
	const void *(*preset)(const struct weir_limit_options *options);

	/* For states of one time and one word, see algo_step. */
	algorithm_step *step;
	const char *word;   /* name of the number in the word, or NULL; see tests/vectors/README.md */
	unsigned word_less; /* the word is that number less this */
	/**
	 * Optional. The caller has set state->until_ns to window_ns after now, because it was too far
	 * ahead. Makes it the state that ends latest of those that the limit can write now.
	 */
	void (*cut)(const struct algo_limit *limit, struct algo_state *state);
	/** Optional, this and the next two or none: packs the parameters that `convert` needs. */
	struct algo_layout (*layout)(const struct algo_limit *limit);
	/**
	 * Converts a state from the layout `from` (NULL if unknown) to `limit`. Units leaked at the
	 * rate of `from` until `since_ns`, which is at most `now_ns`, and at the rate of `limit` since.
	 */
	struct algo_converted (*convert)(const struct algo_limit *limit, const struct algo_layout *from,
	                                 uint64_t since_ns, uint64_t now_ns, struct algo_state state);
	/**
	 * Unpacks a layout into `then`, far enough for a later `convert` to it of a state with all
	 * units. `then` has its algorithm and period already. Returns false if the layout does not tell
	 * all parameters.
	 */
	bool (*restore)(const struct algo_limit *limit, const struct algo_layout *layout,
	                struct algo_limit *then);

	/**
	 * Optional: the shortest wait of a request of that cost, which it has on an unused key. Without
	 * this hook a request does not wait for its own cost.
	 */
	uint64_t (*least_wait_ns)(const struct algo_limit *limit, uint64_t cost);

	/** Optional: called before `next` takes over from `limit`, and after (algo_hand_over). */
	void (*before_takeover)(const struct algo_limit *limit, struct algo_limit *next);
	void (*after_takeover)(const struct algo_limit *limit, struct algo_limit *next);

	/**
	 * Optional: adapts `own`, the limit by which each of `nodes` servers counts for itself while
	 * the shared limit `whole` is out of reach. The counts of `own` are divided by `nodes` already;
	 * `whole` has its defaults filled in.
	 */
	void (*divide)(struct weir_limit_options *own, const struct weir_limit_options *whole,
	               uint64_t nodes);

	/**
	 * Optional, this and the next or none: sets the share of requests that a limit in use denies.
	 */
	void (*set_share)(const struct algo_limit *limit, double share);
	/** Updates the options from which the limit was made by what has been set since. */
	void (*amend)(const struct algo_limit *limit, struct weir_limit_options *options);
};

/** The algorithm of an id, or NULL. */
const struct algorithm *algorithm_of(enum weir_algorithm id);

/** The names of algorithms, in the order of their ids. */
const struct word *algorithm_words(void);

/** The algorithms in the order of the list in meson.build; NULL past the last. */
const struct algorithm *algorithm_listed(size_t index);

/**
 * Checks options by the descriptions of parameters, without the algorithm's `init`. Errors as
 * weir_limit_open, with messages that begin with the parameter's name: "rate: expected …".
 */
int algorithm_check(const struct weir_limit_options *options, struct weir_error *error);

/**
 * Replaces the parameter's name, with which a message of algorithm_check or `init` begins, by the
 * name of its field in the options: "failure_rate" by "failure_percent".
 */
void algorithm_name_field(const struct weir_limit_options *options, struct weir_error *error);

/**
 * Fills in the defaults of the preset and of the algorithm, and replaces WEIR_ZERO by 0. If the
 * algorithm has options of its own, they are copied to `own`, and `options` points there.
 */
void algorithm_resolve(struct weir_limit_options *options, union algo_own *own);

/* The options of a limit that denies every request and has no states. */
extern const struct weir_limit_options algorithm_denies_all;

/* Initializers of `own` and `own_size`, for an algorithm that has options of its own. */
#define ALGO_OWN(algorithm)                                                                        \
	.own = offsetof(struct weir_limit_options, algorithm),                                         \
	.own_size = sizeof(struct weir_##algorithm##_options)

/* For `init` of algorithms. */

/** Gives the limit windows of the calendar. Errors as weir_limit_open. */
int algo_use_calendar(struct algo_limit *limit, const struct weir_limit_options *options,
                      uint64_t period, enum weir_unit unit, struct weir_error *error);

/** The width, of those that stores have, for a state of at least so many cells. */
unsigned algo_width(uint64_t cells);

#endif
