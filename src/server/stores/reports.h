/*
 * reports.h: reports of permits that another server gave, between the servers of one Redis.
 *
 * The server that takes such a report in claims the permit at the store (engine/remote/collect.c),
 * counts the outcome, and tells the giver by scripts/reports.lua. The giver's first worker takes
 * its reports from there in three quarters of `store_poll`, and ends the permits.
 * docs/design/permits.md says why.
 */
#ifndef SERVER_REPORTS_H
#define SERVER_REPORTS_H

#include "server/requests/decider.h"

/** Before workers start: names this server's memory. 0 or an error. */
int reports_open(struct reports *reports, const struct weir_table *table);
/** At the beginning of a turn: where the worker claims permits. */
void reports_begin(struct decider *decider);
/** A turn's `claimed`; its context is the worker's decider. */
void reports_forward(void *context, const struct plan *plan);
/** In each turn of the first worker: when it is to be called again; 0: any time. */
uint64_t reports_tick(struct decider *decider);
/** When no store client is left. */
void reports_close(struct reports *reports);

#endif
