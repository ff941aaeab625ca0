/*
 * handle.h: prepares, decides and answers requests of every kind, whatever their protocol. A table
 * in handle.c has the two functions of each kind.
 *
 * A work (work.h), a request that is being processed, passes through handle_prepare,
 * handle_prefetch_cells, handle_locate_cells, handle_decide and handle_render_reply; the works of
 * an intake pass through each of them together.
 */
#ifndef SERVER_HANDLE_H
#define SERVER_HANDLE_H

#include "server/requests/decider.h"

/**
 * Finds all that the decision needs, or sets the error. If work->full_request is `request` then,
 * the request must last until the answer is rendered.
 */
void handle_prepare(struct decider *decider, struct work *work, const struct request *request);
/** Turns a prepared work into a REQUEST_INTERIM, which decides nothing. */
void handle_drop(struct work *work);
/** Whether the request may have to wait. */
bool handle_may_wait(const struct work *work);
/**
 * Moves a work that waits for a key to the limits of a newer configuration. Those that it does not
 * have are dropped. The work must have a reference to its own configuration.
 */
void handle_move_waiting(struct decider *decider, struct work *work,
                         const struct server_config *config);
/** Denies a work that was to wait. */
void handle_deny(struct decider *decider, struct work *work, enum weir_reason reason,
                 struct reply *reply);
/** Starts fetching the table's cells into the cache. */
void handle_prefetch_cells(const struct weir_table *table, const struct work *works, size_t n);
/** Finds the cells that handle_prefetch_cells has fetched. */
void handle_locate_cells(const struct decision_context *context, struct work *works, size_t n);
/**
 * Decides a work at decider->context.at, fills in the reply, and counts an error. Call it again if
 * the reply says `must_wait` or `is_unfinished`: then it resumes the plan.
 */
void handle_decide(struct decider *decider, struct work *work, struct reply *reply);
/** Renders the reply into `out`. */
void handle_render_reply(struct decider *decider, const struct work *work, struct reply *reply,
                         struct buffer *out);

#endif
