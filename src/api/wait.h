/*
 * wait.h: blocks the thread of a library call while its request waits for a key with too few units.
 */
#ifndef API_WAIT_H
#define API_WAIT_H

#include "api/remote.h"

/**
 * Decides a prepared plan to acquire as weir_ask with a deadline does: the thread waits up to
 * plan->max_wait_ns. `is_late`: the deadline was over when the call began. Returns 0, ENOMEM, ECOST of a plan with `first_refusal_decides`, or ESTORE if
 * the remote store failed and that is an error.
 */
int wait_request(struct weir_table *table, struct plan *plan, bool is_late,
                 enum remote_failure on_failure, struct weir_decision *decision);

#endif
