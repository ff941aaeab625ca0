/* undo.h: works that took something nobody will be told of: it goes back. */
#ifndef SERVER_UNDO_H
#define SERVER_UNDO_H

#include "server/loop/work.h"

/** Whether a store has a plan of the work that is run now; that is counted. */
static inline bool undo_at_store(struct worker *worker, enum engine_state state)
{
	if (__builtin_expect(state != ENGINE_SUBMITTED, 1))
		return false;
	++*worker->at_store;
	return true;
}

/** After the last pass: there is no memory for the reply, and its answer is that error. */
void undo_all(struct worker *worker, struct work *work);
/**
 * Gives back what a work took that was run. A batch that waited `wait_ns` keeps what its items
 * without a wait took: they have started. A plan that is at a store gives back when the store has
 * answered: call undo_go_on then.
 */
void undo_untold(struct worker *worker, struct work *work, uint64_t wait_ns);
void undo_go_on(struct worker *worker, struct work *work);
/** Instead, where stores can't be asked any more: frees what its plans have of them. */
void undo_drop(struct work *work);

#endif
