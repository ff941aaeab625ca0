/* permit.h: the permits of requests, between their text and the engine. */
#ifndef SERVER_PERMIT_H
#define SERVER_PERMIT_H

#include "server/work.h"

/**
 * Of a request that names a permit: reads it, and prepares its refund. 0, or EINVAL (it is
 * none of ours, or of another limit and key), ENOTFOUND, ENOMEM with the reason in `error`.
 */
int permit_prepare(struct worker *worker, const struct request *request, struct plan *plan,
                   struct weir_error *error);

/** Of a request that acquires, once its charges are known: does it get one? 0 or ELONG. */
int permit_ask(const struct request *request, struct plan *plan, struct weir_error *error);

/** Of a request that was decided, with a permit: puts it into the reply, counts. 0 or ENOMEM. */
int permit_answer(struct worker *worker, const struct plan *plan, struct reply *reply);

#endif
