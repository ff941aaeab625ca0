/* wait.h: a request of the library whose thread waits. */
#ifndef API_WAIT_H
#define API_WAIT_H

#include "engine/plan/plan.h"

/**
 * As weir_ask with a deadline, for a request to acquire that was prepared for `table`, with its
 * max_wait_ns. 0, ENOMEM, ECOST of a plan by order, or ESTORE where it `is_direct` and its store
 * failed.
 */
int wait_request(struct weir_table *table, struct plan *plan, bool is_direct,
                 struct weir_decision *decision);

#endif
