/*
 * quorum_group.h: limits that several servers decide together, over a remote store.
 *
 * Workers report the findings of their calls (quorum_groups_notify). The first worker sends them to
 * the store and gets those of the other servers. It makes one call at a time for each limit: at
 * least one in three quarters of `store_poll`, or after one quarter, as soon as there is something
 * to send. No request waits for it: the worker writes the fleet's decisions into the rows of this
 * server's table.
 *
 * While the store is away, each server decides by itself. When it is back, the server hears all
 * that the fleet knows before it takes part again. docs/design/health.md has the rules.
 */
#ifndef SERVER_QUORUM_GROUP_H
#define SERVER_QUORUM_GROUP_H

#include "engine/engine.h"
#include "server/requests/decider.h"

/** Has the limits of an engine decided by fleets that are to be. Before workers see it. ENOMEM,
 * EIO. */
int quorum_groups_join(struct quorum_groups *groups, const struct weir_engine *engine);
/** A turn's `told`; its context is the worker's decider. */
void quorum_groups_notify(void *context, const struct plan_step *step,
                          const struct algo_notification *told);
/** By the worker that talks, in each turn: when it is to be called again; 0: any time. */
uint64_t quorum_groups_tick(struct decider *decider);
/** When no store client is left. */
void quorum_groups_close(struct quorum_groups *groups);

#endif
