/*
 * hold.h: answers that are given later, when it is their request's turn.
 *
 * The decision is made when the request comes, and takes the turn; its bytes are
 * kept until then, and nothing more of its connection is looked at. A client that
 * leaves before gives back what was taken for it. One heap and one timer a worker:
 * who waits costs memory alone.
 *
 * Nothing here points into a configuration, which a reload may free meanwhile.
 */
#ifndef SERVER_HOLD_H
#define SERVER_HOLD_H

#include "server/worker.h"

/** Keeps the answer of a work that is to wait. False: out of memory, which is the answer then. */
bool hold_answer(struct worker *worker, struct work *work);

/** Gives the answers that are due, and sets the loop's alarm for the next one. */
void hold_release(struct worker *worker);

/**
 * The server stops: closes those whose turns come after its time, without an answer,
 * so that they can ask another one now. The others are answered still.
 */
void hold_give_up(struct worker *worker);

/** The client of `hold` has left. */
void hold_cancel(struct worker *worker, struct hold *hold);

#endif
