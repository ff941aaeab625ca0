/*
 * hold.h: connections whose answers come later.
 *
 * Nothing more of such a connection is looked at until its hold is over. One heap
 * and one timer a worker: who waits costs memory alone. A kind of hold says what is
 * done when its time has come, and when the client leaves before.
 *
 * Nothing in a hold points into a configuration, which a reload may free meanwhile.
 */
#ifndef SERVER_HOLD_H
#define SERVER_HOLD_H

#include "server/worker.h"

struct hold;

struct hold_kind {
	/* It is due. Closes the hold, or puts it off. */
	void (*due)(struct worker *worker, struct hold *hold, uint64_t now_ns);
	/* It is not awaited any more. Closes the hold. */
	void (*cancel)(struct worker *worker, struct hold *hold);
};

/* The first member of what its kind keeps. */
struct hold {
	struct heap_node node; /* due by the monotonic clock */
	struct net_conn *conn;
	const struct hold_kind *kind;
};

/** Holds the connection. False: out of memory. */
bool hold_open(struct worker *worker, struct hold *hold, const struct hold_kind *kind,
               struct net_conn *conn, uint64_t due_ns);
/** It is due then. */
void hold_put_off(struct worker *worker, struct hold *hold, uint64_t due_ns);
/** The connection stays held: release it, or hold it again. */
void hold_close(struct worker *worker, struct hold *hold);

/** Does what is due, and sets the loop's alarm for what comes next. */
void hold_run(struct worker *worker);

/** The client has left. */
void hold_cancel(struct worker *worker, struct hold *hold);

/**
 * The server stops: closes those that are due after its time, without an answer,
 * so that they can ask another one now. The others are answered still.
 */
void hold_give_up(struct worker *worker);

/** Counts an answer that was held so long. */
void hold_count(struct worker *worker, uint64_t wait_ns);

/**
 * Keeps the answer of a decided work until its turn. Its bytes are made now; a client
 * that leaves before gives back what was taken for it. False: out of memory, which is
 * the answer then, and all is given back.
 */
bool hold_answer(struct worker *worker, struct work *work);

#endif
