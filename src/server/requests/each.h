/* each.h: what is asked of each rule that applies, by itself; see struct engine_each. */
#ifndef SERVER_EACH_H
#define SERVER_EACH_H

#include "server/loop/work.h"

/* As in handle.c, of REQUEST_EACH, REQUEST_COMPLETE, REQUEST_VALUE and REQUEST_ALIVE. */
void each_prepare(struct worker *worker, struct work *work, const struct request *r);
void each_finish(struct worker *worker, struct work *work, struct reply *reply);
void each_prepare_complete(struct worker *worker, struct work *work, const struct request *r);
void each_finish_complete(struct worker *worker, struct work *work, struct reply *reply);
void each_prepare_value(struct worker *worker, struct work *work, const struct request *r);
void each_finish_value(struct worker *worker, struct work *work, struct reply *reply);
/* Asks each store, by a peek at a limit that is there: one that nobody asks may be away unseen. */
void each_prepare_alive(struct worker *worker, struct work *work, const struct request *r);
void each_finish_alive(struct worker *worker, struct work *work, struct reply *reply);

#endif
