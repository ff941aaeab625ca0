/* state.h: states as files of vectors have them, and as the pure steps take them. */
#ifndef TEST_STATE_H
#define TEST_STATE_H

#include <jansson.h>

#include "algo/outcomes/breaker_state.h"
#include "algo/outcomes/success_ratio.h"
#include "algo/uses/uses.h"

#define STATE_PERMITS_MAX 256 /* of a trace: ids are less */

struct state {
	struct algo_state word; /* of limits without records, ... */
	struct uses uses;       /* ... and of all others */
	struct breaker_state breaker; /* but of those that judge by outcomes this, ... */
	struct breaker_tally tally;   /* its window, ... */
	uint64_t in_flight;         /* and its permits; or */
	struct success_state accepts;
	uint64_t quota;             /* of those that are measured the limit; 0 if there is no state */
	struct uses_entry list[ALGO_WIDTH_MOST + 1];
	uint64_t names[STATE_PERMITS_MAX]; /* of a log's uses, by permit; 0 if there are none */
};

/** The state that is written so: `written` is JSON's null where there is none. */
void state_read(const struct algo_limit *limit, const json_t *written, struct state *state);

/** As it is written, apart from what says nothing at `now_ns`. The caller's. */
json_t *state_write(const struct algo_limit *limit, const struct state *state, uint64_t now_ns);

/** The name that a refund of `permit` asks for; the permit is good until `until_ns`. */
uint64_t state_name(const struct algo_limit *limit, const struct state *state, uint64_t permit,
                    uint64_t until_ns);

/** A request took something under that name. */
void state_took(struct state *state, uint64_t permit, uint64_t name_ns);

/** A pure step. Returns the name of what it took. */
uint64_t state_step(const struct algo_limit *limit, const struct algo_call *call,
                    const struct algo_time *time, struct state *state, struct algo_decision *out);

#endif
