/*
 * request_permit.h: issues permits, texts by which clients refund or report their requests, and
 * prepares the requests that have one.
 */
#ifndef SERVER_REQUEST_PERMIT_H
#define SERVER_REQUEST_PERMIT_H

#include "server/requests/decider.h"

/**
 * Reads the permit that a request names, and prepares its refund. Returns 0 or an error, with its
 * reason in `error`: EINVAL (the permit is not ours, or is of another limit and key), ENOTFOUND,
 * ENOMEM.
 */
int permit_prepare(struct decider *decider, const struct request *request, struct plan *plan,
                   struct weir_error *error);

/**
 * Reads a permit under any secret that it may have been written under. Returns false if none fits.
 */
bool permit_read(struct decider *decider, struct slice text, struct weir_permits *permits,
                 struct engine_names *names);

/**
 * Makes a plan with known charges ask for a permit, if the request wants one or a limit needs
 * reports. Returns 0 or ELONG.
 */
int permit_request(bool is_wanted, struct plan *plan, struct weir_error *error);

/** Writes the permit of a decided request into the reply, and counts it. Returns 0 or ENOMEM. */
int permit_write_reply(struct decider *decider, const struct plan *plan, struct reply *reply);

/**
 * Removes the permit from a reply at /auth, unless the configuration says that proxies report. Each
 * limit that waits for the report counts this, and each thread logs the first one.
 */
void permit_withhold(struct decider *decider, const struct plan *plan, struct reply *reply);

/** The handler of a prepared REQUEST_REPORT (handle.c). */
void permit_finish_report(struct decider *decider, struct work *work, struct reply *reply);

#endif
