/* request_permit.h: the permits of requests, between their text and the engine. */
#ifndef SERVER_REQUEST_PERMIT_H
#define SERVER_REQUEST_PERMIT_H

#include "server/requests/decider.h"

/**
 * Reads the permit that a request names, and prepares its refund. 0, or EINVAL (the permit is
 * not ours, or is of another limit and key), ENOTFOUND, ENOMEM, with the reason in `error`.
 */
int permit_prepare(struct decider *decider, const struct request *request, struct plan *plan,
                   struct weir_error *error);

/** Reads a permit under any secret that it may have been written under. False: it is not ours. */
bool permit_read(struct decider *decider, struct slice text, struct weir_permits *permits,
                 struct engine_names *names);

/** Asks for a permit for a request that acquires, once its charges are known. 0 or ELONG. */
int permit_request(const struct request *request, struct plan *plan, struct weir_error *error);

/** Puts the permit of a decided request into the reply, and counts it. 0 or ENOMEM. */
int permit_write_reply(struct decider *decider, const struct plan *plan, struct reply *reply);

/**
 * Takes the permit out of a reply at /auth, unless the configuration says that proxies report. Each
 * limit that waits for the report counts this, and the first time a thread logs it.
 */
void permit_withhold(struct decider *decider, const struct plan *plan, struct reply *reply);

#endif
