/* handle.h: what is done for each kind of request, whatever its protocol. */
#ifndef SERVER_HANDLE_H
#define SERVER_HANDLE_H

#include "server/work.h"

/**
 * First pass: finds what is needed to decide, or the error that answers it. Where the work
 * has the request as its whole then, that stays until the answer is rendered.
 */
void handle_prepare(struct worker *worker, struct work *work, const struct request *request);
/** The answer is an error, whatever was asked. `message` outlives the answer. */
void handle_refuse(struct work *work, int status, const char *message);
/** Whether the request may have to wait. */
bool handle_may_wait(const struct work *work);
/** A work that waits for a key forgets the steps whose limits are no more. */
void handle_adapt(struct worker *worker, struct work *work);
/** A work that was to wait is denied instead. */
void handle_deny(struct worker *worker, struct work *work, enum weir_reason reason,
                 struct reply *reply);
/** Then, for all that wait: starts fetching the cells. */
void handle_fetch(const struct weir_table *table, const struct work *works, size_t n);
/** Then, for all that wait: looks for the cells that are on their way. */
void handle_locate(const struct turn *turn, struct work *works, size_t n);
/** For engine_observer, of a worker: counts a decision. */
void handle_observe(void *worker, const struct step *step);
/** Counts a step that its store could not do. */
void handle_observe_failure(struct worker *worker, const struct step *step,
                            enum rules_failure policy);
/**
 * Last pass, at worker->turn.at: fills the reply, and counts an error. Again for a work that waits
 * for a key or was at a store (reply->waits, at_store): goes on.
 */
void handle_finish(struct worker *worker, struct work *work, struct reply *reply);
/** After the last pass: there is no memory for the reply. Gives back what was taken. */
void handle_no_memory(struct worker *worker, struct work *work);
/**
 * Of a work that was run: gives back what it took, but what has been told of a batch that waited
 * `wait_ns`: its items that did not wait had their starts. What is at a store goes back when that
 * has told: handle_end then.
 */
void handle_give_back(struct worker *worker, struct work *work, uint64_t wait_ns);
void handle_end(struct worker *worker, struct work *work);
/** Instead, where stores can't be asked any more: frees what its plans have of them. */
void handle_drop(struct work *work);
/** Renders the reply. */
void handle_reply(struct worker *worker, const struct work *work, struct reply *reply,
                  struct buffer *out);

#endif
