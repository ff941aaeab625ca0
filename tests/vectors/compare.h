/* compare.h: what a runner of vectors found, against what they say. */
#ifndef TEST_COMPARE_H
#define TEST_COMPARE_H

#include "state.h"
#include "vector.h"

/* The run that is compared, for messages. */
struct run {
	const char *path, *how;
	unsigned line, differences;
};

void compare(struct run *run, const char *what, uint64_t found, uint64_t expected);
void compare_decisions(struct run *run, const struct weir_decision *found,
                       const struct weir_decision *expected);
void compare_outcomes(struct run *run, const struct algo_limit *limit,
                      const struct algo_decision *found, const struct vector_step *step);
void compare_states(struct run *run, const struct algo_limit *limit, const struct state *state,
                    const struct vector_step *step);

/* The step's call, which names what it gives back as `state` does. */
struct algo_call compare_call(const struct algo_limit *limit, const struct state *state,
                              const struct vector_step *step);

/* A request took something; all names but a log's are the times that the file has. */
void compare_name(struct run *run, const struct algo_limit *limit, struct state *state,
                  const struct vector_step *step, uint64_t name_ns);

#endif
