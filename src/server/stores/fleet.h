/*
 * fleet.h: limits that several servers decide together, over a remote store.
 *
 * Workers report the findings of their calls (fleets_told). The first worker sends them to the
 * store and gets those of the other servers. It makes one call at a time for each limit: at least
 * one in three quarters of `store_poll`, or after one quarter, as soon as there is something to
 * send. No request waits for it: the worker writes the fleet's decisions into the rows of this
 * server's table.
 *
 * While the store is away, each server decides by itself. When it is back, the server hears all
 * that the fleet knows before it takes part again. docs/design/health.md has the rules.
 */
#ifndef SERVER_FLEET_H
#define SERVER_FLEET_H

#include "engine/engine.h"
#include "server/requests/decider.h"

/** Has the limits of an engine decided by fleets that are to be. Before workers see it. ENOMEM, EIO. */
int fleets_join(struct fleets *fleets, const struct weir_engine *engine);
/** A turn's `told`; its context is the worker's decider. */
void fleets_told(void *context, const struct step *step, const struct algo_notification *told);
/** By the worker that talks, in each turn: when it is to be called again; 0: any time. */
uint64_t fleets_tick(struct decider *decider);
/** When no store client is left. */
void fleets_close(struct fleets *fleets);

#endif
