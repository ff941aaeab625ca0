/*
 * reports.h: passes reports of permits between the servers of one Redis, when a client reports the
 * end of its request to another server than the one that granted its permit, the giver.
 *
 * The server that receives such a report claims the permit at the store (engine/remote/collect.c),
 * counts the outcome, and sends the report to the giver by scripts/reports.lua. The giver's first
 * worker fetches its reports three quarters of `store_poll` apart, and ends the permits.
 * docs/design/permits.md says why.
 */
#ifndef SERVER_REPORTS_H
#define SERVER_REPORTS_H

#include "server/requests/decider.h"

/** Derives this server's id as a giver. Call it before workers start. Returns 0 or an error. */
int reports_open(struct reports *reports, const struct weir_table *table);
/** Sets the decision context's giver and store at the beginning of an iteration. */
void reports_set_context(struct decider *decider);
/** The callback `claimed` of a worker's decision context: sends the report. */
void reports_forward(void *context, const struct plan *plan);
/**
 * Called in each iteration; does its work in the first worker alone. Returns when it is due again,
 * or 0.
 */
uint64_t reports_tick(struct decider *decider);
/** Called when there are no store clients any more. */
void reports_close(struct reports *reports);

#endif
