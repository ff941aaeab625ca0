/* rollback.h: works that took something nobody will be told of: it goes back. */
#ifndef SERVER_ROLLBACK_H
#define SERVER_ROLLBACK_H

#include "server/requests/decider.h"

/** After the last pass: there is no memory for the reply, and its answer is that error. */
void rollback_out_of_memory(struct decider *decider, struct work *work);
/**
 * Gives back what a work took that was run. A batch that waited `wait_ns` keeps what its items
 * without a wait took: they have started. A plan that is at a store gives back when the store has
 * answered: call rollback_continue then.
 */
void rollback_unanswered(struct decider *decider, struct work *work, uint64_t wait_ns);
void rollback_continue(struct decider *decider, struct work *work);
/** Instead, where stores can't be asked any more: frees what its plans have of them. */
void rollback_abandon(struct work *work);

#endif
