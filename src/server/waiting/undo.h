/* undo.h: works that took something nobody will be told of: it goes back. */
#ifndef SERVER_UNDO_H
#define SERVER_UNDO_H

#include "server/requests/decider.h"

/** After the last pass: there is no memory for the reply, and its answer is that error. */
void undo_all(struct decider *decider, struct work *work);
/**
 * Gives back what a work took that was run. A batch that waited `wait_ns` keeps what its items
 * without a wait took: they have started. A plan that is at a store gives back when the store has
 * answered: call undo_go_on then.
 */
void undo_untold(struct decider *decider, struct work *work, uint64_t wait_ns);
void undo_go_on(struct decider *decider, struct work *work);
/** Instead, where stores can't be asked any more: frees what its plans have of them. */
void undo_drop(struct work *work);

#endif
