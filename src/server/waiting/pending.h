/*
 * pending.h: writes answers in the order of the requests, and stores answers that come later. A
 * work (work.h) is a request that is being processed.
 *
 * A request may wait for its start, a key or a store; requests behind it on the connection are
 * decided meanwhile. So each client lists its unanswered works, oldest first. When the first work
 * is done, its answer is written, and all finished answers behind it. A protocol whose answers may
 * come in any order, as HTTP/2, has each answer written when it is done.
 *
 * A worker has one heap and one alarm, so a waiting work costs memory alone. The network counts
 * that memory, and reads no further from a connection that has used its share.
 *
 * Each unanswered work owns a reference to the configuration by which it was prepared.
 */
#ifndef SERVER_PENDING_H
#define SERVER_PENDING_H

#include "base/heap.h"
#include "server/requests/decider.h"

/* About the memory of a waiting work. A client's share divided by this bounds its waiting works. */
#define PENDING_SIZE ((size_t)1 << 10)

/* The due time of a work that only an event resumes. */
#define PENDING_NEVER UINT64_MAX

struct unanswered;

/* The unanswered works of a worker. */
struct pending {
	struct decider *decider;
	struct heap due;          /* works that wait, by due time */
	uint64_t decision_count;  /* number of decisions of works that waited */
	uint64_t stop_timeout_ns; /* when the server stops: how long it waits for answers */
	struct buffer answers;    /* the rendered answers of the intake */
};

/* A reason to wait, and what to do when it ends. */
struct unanswered_kind {
	/* Called at the due time: reschedules the work, or passes it to pending_answer_suspended. */
	void (*due)(struct pending *pending, struct unanswered *unanswered, uint64_t now_ns);
	/* Called when the work is cancelled; NULL if nothing has to be done. */
	void (*cancel)(struct pending *pending, struct unanswered *unanswered);
};

/* The owner of the memory of an unanswered work. */
struct unanswered_owner {
	/* Gives back the charges that the plan knows; NULL if `refundable` lists them. */
	void (*refund)(struct unanswered *unanswered);
	void (*release)(struct unanswered *unanswered);
};

/* An unanswered work: the first member of a larger struct, which is freed with it. */
struct unanswered {
	struct heap_node due_node;    /* due by the monotonic clock; not in the heap when done */
	struct list_node client_node; /* in client->unanswered */
	struct net_conn *conn;
	struct server_config *config;
	const struct unanswered_kind *kind; /* NULL once the work is done */
	size_t charged_bytes;               /* memory that the network counts for it */
	unsigned short stream;              /* number of the HTTP/2 stream, as in struct request */
	unsigned short sender_number; /* number of its user in `config`, from 1, or 0 for nobody */
	uint64_t decision_number;     /* counts the decisions of this worker, from 1, or 0 */
	uint64_t wait_ns;             /* from the decision until the work may start */
	struct buffer reply;
	struct arena arena; /* for a batch that takes several iterations; see deferred.c */
	struct engine_charge *refundable; /* the charges to give back if the client leaves */
	size_t refundable_count;
	const struct unanswered_owner *owner; /* NULL if malloc is */
	size_t use_count; /* number of plans at stores, plus one while the work runs or is ready */
};

/** Stores the request's user and its HTTP/2 stream. */
void pending_identify(struct unanswered *unanswered, const struct decider *decider,
                      const struct work *work);
/**
 * Adds a work that waits, with `charged_bytes`, as the newest of its client. Returns false
 * if memory is short.
 */
bool pending_add(struct pending *pending, struct unanswered *unanswered,
                 const struct unanswered_kind *kind, struct net_conn *conn, uint64_t due_ns);
/** Undoes pending_add; call pending_free next. */
void pending_remove(struct pending *pending, struct unanswered *unanswered);
/**
 * Frees the work, or leaves that to the last answer of a store that has plans of it. Clears `conn`.
 */
void pending_free(struct unanswered *unanswered);
/** Whether an answer to this work could be written now. */
bool pending_is_next(const struct unanswered *unanswered);
/** Adds to the memory that the work is known to take. */
void pending_grow(struct unanswered *unanswered, size_t bytes);
/** Sets another due time. */
void pending_reschedule(struct pending *pending, struct unanswered *unanswered, uint64_t due_ns);

/** Answers a work that has been decided; if it must wait for its start, then. */
void pending_answer_suspended(struct pending *pending, struct unanswered *unanswered,
                              struct work *work, struct reply *reply);
/** The same for a work of the intake. An answer that nothing delays goes to pending->answers. */
void pending_answer_new(struct pending *pending, struct work *work, struct reply *reply);

/** Passes answers that a codec has rendered to the network. */
void pending_send(struct net_conn *conn, struct slice answers);

/** Calls `due` of all works that are due. */
void pending_run(struct pending *pending);
/** The earliest due time, or 0 if nothing is due. */
uint64_t pending_due(const struct pending *pending);

/**
 * Ends all works of a client without an answer. Gives back their charges, the newest decision
 * first: of the starts of a key only the newest can be given back.
 */
void pending_cancel(struct pending *pending, struct net_conn *conn);

/** Closes the connections with a waiting request whose user a reload has removed. */
void pending_close_removed_senders(struct pending *pending);

/**
 * Like pending_cancel, for one request that the client has cancelled. Returns false if it is not
 * here.
 */
bool pending_cancel_stream(struct pending *pending, struct net_conn *conn, unsigned stream);

/**
 * The server stops: closes the connections of works that are due after `stop_timeout_ns`, so that
 * their clients can ask another server now. Other works are still answered.
 */
void pending_abandon_late(struct pending *pending);

/** Counts the time for which an answer waited. */
void pending_count_wait(struct decider *decider, uint64_t wait_ns);

#endif
