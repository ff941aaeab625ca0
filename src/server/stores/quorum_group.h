/*
 * quorum_group.h: decides limits together with other servers, the quorum group of a limit, through
 * a remote store: a breaker opens when enough servers vote so.
 *
 * Workers collect notifications of their calls (quorum_groups_notify). The first worker sends them
 * to the store, and receives those of the other servers. It has one call at a time under way for
 * each limit. Calls come three quarters of `store_poll` apart, or one quarter if there is something
 * to send. No request waits for a call: the worker writes the group's decisions into the records of
 * this server's table.
 *
 * While the store is unavailable, each server decides by itself. When the store has recovered, the
 * server receives all decisions of the group before it takes part again.
 * docs/design/breaker-states.md has the rules.
 */
#ifndef SERVER_QUORUM_GROUP_H
#define SERVER_QUORUM_GROUP_H

#include "engine/engine.h"
#include "server/requests/decider.h"

/**
 * Gives each limit with a quorum its group, made if necessary. Call it before workers see the
 * engine. Returns 0, ENOMEM or EIO.
 */
int quorum_groups_join(struct quorum_groups *groups, const struct weir_engine *engine);
/** The callback `notify` of a worker's decision context. */
void quorum_groups_notify(void *context, const struct plan_step *step,
                          const struct algo_notification *notification);
/**
 * Called in each iteration; does its work in the first worker alone. Returns when it is due again,
 * or 0.
 */
uint64_t quorum_groups_tick(struct decider *decider);
/** Frees all groups, when there are no store clients any more. */
void quorum_groups_close(struct quorum_groups *groups);

#endif
