/*
 * work.h: defines the data of a request that is being processed (struct work, a *work*), and of a
 * client: what the server knows of a connection. All folders of the server can include it.
 */
#ifndef SERVER_WORK_H
#define SERVER_WORK_H

#include <stdalign.h>

#include "base/hash.h"
#include "base/list.h"
#include "engine/engine.h"
#include "net/net.h"
#include "proto/codec.h"
#include "server/access/users.h"
#include "server/admin/metrics.h"

struct worker_protocol {
	const struct codec *codec;
	enum metrics_protocol metric;
	bool is_admin; /* admin calls come by its listener */
};

struct login_check;

/* The users of a connection; see client_login.h. */
struct client_login {
	uint64_t users_serial;            /* struct users' `serial`: the configuration that has them */
	const struct user *own_user;      /* the sender of requests without a login, or NULL */
	struct hash_key user_id;          /* the id of `own_user`, if ... */
	bool has_user_id;                 /* ... a login has set it for the connection */
	const struct user *verified_user; /* the user of the last login that was right, or NULL */
	uint64_t verified_tag;            /* a short hash of that login, see users_login_tag */
	struct hash_key checked_login;    /* the last login whose password was checked, ... */
	int checked_status;               /* ... and its error, until that was reported */
	struct login_check *check;        /* a login whose password is being checked, or NULL */
};

/* A client in the admission queue; see admission.h. */
struct client_admission {
	struct list_node node;
	size_t expected_steps;  /* about how many steps its next request has */
	bool is_admitted;       /* it has left the queue and not been served yet */
	bool waits_for_batches; /* it has a long batch, which waits for batches of others */
};

/* Why a connection is suspended (net_conn_suspend), as a set. */
enum client_suspension {
	CLIENT_LOGIN = 1,     /* a password is being checked */
	CLIENT_ADMISSION = 2, /* it is in the admission queue, see admission.h */
};

/* The server's part of a connection. */
struct client {
	/* set while the client is in the admission queue or a password is checked */
	struct net_conn *conn;
	struct client_admission admission;
	bool has_split_batch;   /* it has a batch whose items have not all begun */
	struct list unanswered; /* works without an answer, oldest first, see pending.h */
	struct list ordered; /* the works among them that may make later ones wait, see key_order.h */
	size_t many_keys_count; /* how many of these have too many keys to compare */
	uint64_t next_event;    /* if the client follows events: the number of the first one to send */
	uint64_t next_denial;   /* and of the first denial, or 0 if it wants none */
	size_t reply_bytes;     /* about the bytes that replies to its works in the intake will have */
	struct client_login login;
	alignas(max_align_t) unsigned char session[]; /* the codec's state */
};

/*
 * A request that is being processed: the data that its plan and its answer need. It has no
 * decision, because the answer is rendered as soon as there is one. A work that outlives its
 * iteration is copied to memory of its own (suspend.h).
 */
struct work {
	struct net_conn *conn;
	union {
		/* The request, in the arena, if the answer needs more than `core`; otherwise NULL. */
		const struct request *full_request;
		const char *message; /* of an error, unless the kind is REQUEST_LOCAL */
		size_t answer_end;   /* once it is decided: where its answer ends in pending.answers */
	};
	union {
		struct request_core core;
		struct {
			REQUEST_CORE;
		};
	};
	struct plan plan;
};

_Static_assert(sizeof(struct work) <= 192, "a thousand fit into the second-level cache");

/*
 * The `full_request` of a REQUEST_BATCH. If its items have more work than a batch may do in one
 * iteration, only the first of them are prepared when the batch is read. It is then suspended, and
 * continues in later iterations; see deferred.h.
 */
struct batch {
	struct request request;
	struct reply *replies; /* one for each item of the request, or NULL before the first run */
	size_t begun_count;    /* number of items that are prepared */
	/* units of work of the items that were prepared last, see engine_work */
	size_t unit_count;
	bool is_split;           /* it takes several iterations */
	const struct user *user; /* its sender, in the configuration by which it was read */
	uint64_t times_from_ns;  /* when the durations in `replies` begin, or 0 before the first run */
	struct work items[];
};

static inline const struct worker_protocol *protocol_of(const struct net_conn *conn)
{
	return net_conn_tag(conn);
}

static inline struct client *client_of(struct net_conn *conn)
{
	return net_conn_data(conn);
}

/* Whether answers may come in any order; codec->frame_answers then frames them for the peer. */
static inline bool conn_answers_in_any_order(struct net_conn *conn)
{
	const struct codec *codec = protocol_of(conn)->codec;

	return codec->answers_in_any_order && codec->answers_in_any_order(client_of(conn)->session);
}

/* The items that have begun; none if it is no batch or an error. */
static inline struct work *items_of(const struct work *work, size_t *n)
{
	bool has = work->kind == REQUEST_BATCH && work->status == WEIR_OK;

	*n = has ? ((struct batch *)work->full_request)->begun_count : 0;
	return has ? ((struct batch *)work->full_request)->items : NULL;
}

/* Whether its plan was prepared. An ad hoc request has a plan even if its cost can never pass. */
static inline bool work_has_plan(const struct work *work)
{
	return (work->status == WEIR_OK || work->kind == REQUEST_ADHOC) && work->plan.step_count > 0;
}

/* Its units of work in this iteration, see engine_work. */
static inline size_t work_units(const struct work *work)
{
	if (__builtin_expect(work->status != WEIR_OK, 0))
		return 1;
	return __builtin_expect(work->kind == REQUEST_BATCH, 0)
	           ? ((const struct batch *)work->full_request)->unit_count
	           : engine_work(&work->plan);
}

/* Whether it is a batch of which only some items have begun: the others do in later iterations. */
static inline bool work_has_items_to_begin(const struct work *work)
{
	return work->kind == REQUEST_BATCH && work->status == WEIR_OK &&
	       ((const struct batch *)work->full_request)->begun_count < work->full_request->item_count;
}

#endif
