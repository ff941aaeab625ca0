/*
 * per_rule.h: handles requests in the manner of Koala's rule server, in which each rule is decided
 * by itself (struct engine_rule_operation), and the question whether all stores are alive.
 */
#ifndef SERVER_PER_RULE_H
#define SERVER_PER_RULE_H

#include "server/requests/decider.h"

/* The handlers of REQUEST_EACH, REQUEST_COMPLETE, REQUEST_VALUE and REQUEST_ALIVE; see handle.c. */
void per_rule_prepare_each_limit(struct decider *decider, struct work *work,
                                 const struct request *r);
void per_rule_finish_each_limit(struct decider *decider, struct work *work, struct reply *reply);
void per_rule_prepare_browse_all(struct decider *decider, struct work *work,
                                 const struct request *r);
void per_rule_finish_browse_all(struct decider *decider, struct work *work, struct reply *reply);
void per_rule_prepare_value(struct decider *decider, struct work *work, const struct request *r);
void per_rule_finish_value(struct decider *decider, struct work *work, struct reply *reply);
/* Peeks at one limit of each store: without a call, a store that has failed would go unnoticed. */
void per_rule_prepare_alive(struct decider *decider, struct work *work, const struct request *r);
void per_rule_finish_alive(struct decider *decider, struct work *work, struct reply *reply);

#endif
