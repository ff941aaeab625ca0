/* per_rule.h: what is asked of each rule that applies, by itself; see struct engine_rule_operation.
 */
#ifndef SERVER_PER_RULE_H
#define SERVER_PER_RULE_H

#include "server/requests/decider.h"

/* As in handle.c, of REQUEST_EACH_LIMIT, REQUEST_BROWSE_ALL, REQUEST_VALUE and REQUEST_ALIVE. */
void per_rule_prepare(struct decider *decider, struct work *work, const struct request *r);
void per_rule_finish(struct decider *decider, struct work *work, struct reply *reply);
void per_rule_prepare_complete(struct decider *decider, struct work *work, const struct request *r);
void per_rule_finish_complete(struct decider *decider, struct work *work, struct reply *reply);
void per_rule_prepare_value(struct decider *decider, struct work *work, const struct request *r);
void per_rule_finish_value(struct decider *decider, struct work *work, struct reply *reply);
/* Asks each store, by a peek at a limit that is there: one that nobody asks may be away unseen. */
void per_rule_prepare_alive(struct decider *decider, struct work *work, const struct request *r);
void per_rule_finish_alive(struct decider *decider, struct work *work, struct reply *reply);

#endif
