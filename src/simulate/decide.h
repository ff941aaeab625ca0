/*
 * decide.h: decides single requests in a scenario, at their own times, and counts the decisions. A
 * request goes through decide_prepare, engine_locate and decide_run; one with a permit ends with
 * decide_report.
 */
#ifndef SIMULATE_DECIDE_H
#define SIMULATE_DECIDE_H

#include "simulate/inflight.h"
#include "simulate/input/time_order.h"
#include "simulate/scenario.h"

/** Prepares the plan of a request, and prefetches its keys. Returns a status. */
int decide_prepare(struct scenario *scenario, const struct ordered_record *ordered,
                   struct arena *arena, struct plan *plan);

/**
 * Decides a prepared and located plan, and counts it. Adds a line for each decision to `output`,
 * which may be NULL. Returns false if out of memory.
 */
bool decide_run(struct scenario *scenario, const struct ordered_record *ordered, struct plan *plan,
                struct buffer *output, struct weir_decision *decision);

/** Sets what decide_report needs of a plan that has passed with a permit. */
void decide_fill_end(const struct plan *plan, struct request_end *end);

/**
 * Reports how a request ended. Sets *evicted if the table had evicted its permits. Returns false if
 * out of memory. Resets the arena.
 */
bool decide_report(struct scenario *scenario, const struct request_end *end, uint64_t now_ns,
                   struct arena *arena, bool *evicted);

/** Begins a line of the decisions' output, up to the limit's name, whose quote stays open. */
void decide_begin_line(struct buffer *out, const struct ordered_record *ordered, const char *limit);

#endif
