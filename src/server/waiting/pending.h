/*
 * pending.h: answers in the order of requests, and answers that come later.
 *
 * A request may wait for its start or for a key; the requests behind it on the connection are
 * decided when they come. So each client has a list of the works without an answer, oldest first.
 * The first of them waits; each other waits too, or is done and keeps its answer here. When the
 * first is done, its answer is written with all finished answers behind it. A codec that
 * `streams` needs no order: each answer is written when it is done.
 *
 * A worker has one heap and one alarm, so a waiting work costs only memory. The network counts
 * that memory, and hands over nothing more of a connection that has used its share.
 *
 * Each owns a reference to the configuration that it was prepared by.
 */
#ifndef SERVER_PENDING_H
#define SERVER_PENDING_H

#include "base/heap.h"
#include "server/requests/decider.h"

/* About what a work that waits takes: so many of one client fit into its share. */
#define PENDING_SIZE ((size_t)1 << 10)

/* When nothing but an event makes it go on. */
#define PENDING_NEVER UINT64_MAX

struct unanswered;

/* The answers of a worker that are to come. */
struct pending {
	struct decider *decider;
	struct heap due;    /* works that wait, by when they are due */
	uint64_t decisions; /* of works that waited */
	uint64_t stop_ns;   /* how long what is unfinished is waited for when the server stops */
	struct buffer out;  /* the batch's answers, as they were rendered */
};

/* A reason to wait. */
struct unanswered_kind {
	/* It is due: puts it off, or hands its work to pending_decided. */
	void (*due)(struct pending *pending, struct unanswered *unanswered, uint64_t now_ns);
	/* Its client is gone, or could not be answered in order. NULL: nothing to do. */
	void (*cancel)(struct pending *pending, struct unanswered *unanswered);
};

/* The owner of its memory. */
struct unanswered_owner {
	/* Gives back what it took, as its plan knows. NULL: `taken` tells. */
	void (*refund)(struct unanswered *unanswered);
	void (*release)(struct unanswered *unanswered);
};

/* A work that is not answered: the first member of what its kind keeps, and freed with it. */
struct unanswered {
	struct heap_node node;      /* due by the monotonic clock; not in the heap when done */
	struct list_node client_node; /* oldest first */
	struct net_conn *conn;
	struct server_config *config;
	const struct unanswered_kind *kind; /* NULL: it is done */
	size_t size;                  /* of its memory, as the network counts it */
	unsigned short stream;        /* as of struct request */
	unsigned short sender;        /* the number of its user in `config`, from 1; 0: nobody's */
	uint64_t decision_number;     /* the number of its decision in this worker; 0: none yet */
	uint64_t wait_ns;             /* until it may start, from when it was decided */
	struct buffer reply;
	struct arena arena;         /* of what is finished in several turns, see deferred.c */
	struct engine_taken *taken; /* what goes back if its client is gone before the answer */
	size_t taken_count;
	const struct unanswered_owner *owner; /* NULL: malloc */
	size_t at_store; /* plans that stores have of it, and one while it runs or is ready */
};

/** Notes whose request it is, and which of the connection's. */
void pending_identify(struct unanswered *unanswered, const struct decider *decider,
                      const struct work *work);
/** Adds a work that waits, of `size` bytes, behind all of its client. False: no memory. */
bool pending_add(struct pending *pending, struct unanswered *unanswered,
                 const struct unanswered_kind *kind, struct net_conn *conn, uint64_t due_ns);
/** Takes it out again, as if it had not been added; pending_free follows. */
void pending_remove(struct pending *pending, struct unanswered *unanswered);
/** Now, or (without a connection from now on) when stores have told of all that they have of it. */
void pending_free(struct unanswered *unanswered);
/** Whether its answer, if it was there, could be written. */
bool pending_is_next(const struct unanswered *unanswered);
/** Its memory has grown by so many bytes. */
void pending_grow(struct unanswered *unanswered, size_t bytes);
/** It is due then. */
void pending_reschedule(struct pending *pending, struct unanswered *unanswered, uint64_t due_ns);

/** The work of `held` is decided: its answer is due when the work may start. */
void pending_decided(struct pending *pending, struct unanswered *unanswered, struct work *work,
                     struct reply *reply);
/**
 * The same for a work of the batch: without a wait it is answered as soon as can be, in
 * pending->out if that is now.
 */
void pending_answer(struct pending *pending, struct work *work, struct reply *reply);

/** Hands answers, as the codec made them, to the network. */
void pending_send(struct net_conn *conn, struct slice answers);

/** Does what is due. */
void pending_run(struct pending *pending);
/** When the next is due; 0: nothing is. */
uint64_t pending_due(const struct pending *pending);

/**
 * The client is gone, or is to be let go: its works end without an answer. What they took
 * goes back, the newest first, for of starts no other can be given back.
 */
void pending_cancel(struct pending *pending, struct net_conn *conn);

/** Ends the connections of which a request waits whose user a reload took away. */
void pending_end_senders(struct pending *pending);

/** As pending_cancel, for one request, which the client cancelled. False: it is not held. */
bool pending_cancel_stream(struct pending *pending, struct net_conn *conn, unsigned stream);

/**
 * The server stops: lets those clients go that are due after its time, so that they can ask
 * another one now. The others are answered still.
 */
void pending_abandon_late(struct pending *pending);

/** Counts an answer that was held so long. */
void pending_count_wait(struct decider *decider, uint64_t wait_ns);

#endif
