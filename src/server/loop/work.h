/*
 * work.h: the requests of a loop's turn and their clients.
 *
 * It is only data. Each room of this folder may see it, and it sees none of them but the names of
 * users, whom requests come from.
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
	bool is_admin; /* its listener is the one for admin calls */
};

struct login_check;

/* The users of a connection, all of the configuration `serial`. See client_login.h. */
struct client_login {
	uint64_t serial;
	const struct user *user;   /* of requests without a login; NULL: nobody */
	struct hash_key user_id;   /* that user's id, if a login ... */
	bool has_user_id;          /* ... was sent for the connection */
	const struct user *verified; /* of the last login that was right; NULL: none */
	uint64_t tag;                /* that login, see users_login_tag */
	struct hash_key fingerprint; /* of the last login whose hash was computed, ... */
	int status;                /* ... if it is refused, why, once */
	struct login_check *check; /* that computes its hash; or NULL */
};

/* A client in the admission queue; see admission.h. */
struct client_admission {
	struct list_node node;
	size_t weight;  /* about how many steps it would bring */
	bool is_admitted; /* it has waited, and has leave */
	bool is_behind; /* it waits with a batch for those of others */
};

/* Why a connection is put off (net_conn_suspend), as a set. */
enum client_put_off {
	CLIENT_LOGIN = 1,     /* a login's hash is computed */
	CLIENT_ADMISSION = 2, /* it is in the admission queue, see admission.h */
};

/* The server's part of a connection. */
struct client {
	struct net_conn *conn; /* while it waits for admission or for a login */
	struct client_admission admission;
	bool has_split;      /* a batch of it has items that are not begun */
	struct list unanswered; /* its works that are not answered, see pending.h */
	struct list ordered; /* those that keep others in order, see key_order.h, ... */
	size_t wide;         /* and how many of them have many keys */
	uint64_t event;      /* the number of the first one that it is told of, if it follows */
	size_t coming;       /* about how many bytes of replies the batch has for it */
	struct client_login login;
	alignas(max_align_t) unsigned char session[]; /* the codec's */
};

/*
 * A request on its way through the server, from the batch of its loop: what its plan and its
 * answer need, and no decision, for that is rendered when it is made. A work that outlives the
 * turn is copied, once, to memory of its own (suspend.h).
 */
struct work {
	struct net_conn *conn;
	union {
		/* The request, in the arena, if the answer needs more than the head; else NULL. */
		const struct request *whole;
		const char *message; /* instead, of a status that is not 0, but for REQUEST_LOCAL */
		size_t end;          /* when it is decided: of its answer in pending.out */
	};
	union {
		struct request_core head;
		struct {
			REQUEST_CORE;
		};
	};
	struct plan plan;
};

_Static_assert(sizeof(struct work) <= 192, "a turn of a thousand fits into the second cache");

/*
 * The whole of a REQUEST_BATCH. If its items are more work than a batch may be in one turn, only
 * the first of them are prepared when it is read. It is suspended, and goes on in the turns that
 * follow: deferred.h.
 */
struct batch {
	struct request request;
	struct reply *replies;   /* as many as the request has items; NULL: not yet */
	size_t begun;            /* so many of the items are prepared */
	size_t work;             /* how much those are that were prepared last, as engine_work says */
	bool is_split;           /* it takes several turns */
	const struct user *user; /* its sender, of the configuration that it was read by */
	uint64_t at_ns;          /* when the replies' times count from */
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

/* Whether its answers may come in any order; codec->send makes of them what goes to the peer. */
static inline bool conn_streams(struct net_conn *conn)
{
	const struct codec *codec = protocol_of(conn)->codec;

	return codec->streams && codec->streams(client_of(conn)->session);
}

/* Its items that are begun; of what is no batch, and of an error, none. */
static inline struct work *items_of(const struct work *work, size_t *n)
{
	bool has = work->kind == REQUEST_BATCH && work->status == WEIR_OK;

	*n = has ? ((struct batch *)work->whole)->begun : 0;
	return has ? ((struct batch *)work->whole)->items : NULL;
}

/*
 * Whether it has a plan that was prepared: an ad hoc request has one even if its cost can never
 * pass.
 */
static inline bool work_has_plan(const struct work *work)
{
	return (work->status == WEIR_OK || work->kind == REQUEST_ADHOC) && work->plan.step_count > 0;
}

/* How much work it is in this turn, as engine_work says. */
static inline size_t work_units(const struct work *work)
{
	if (__builtin_expect(work->status != WEIR_OK, 0))
		return 1;
	return __builtin_expect(work->kind == REQUEST_BATCH, 0)
	           ? ((const struct batch *)work->whole)->work
	           : engine_work(&work->plan);
}

/* The batch, if it has items that are not begun; else NULL. */
static inline struct batch *work_split(const struct work *work)
{
	struct batch *batch =
	    work->kind == REQUEST_BATCH && work->status == WEIR_OK ? (struct batch *)work->whole : NULL;

	return batch && batch->begun < batch->request.item_count ? batch : NULL;
}

#endif
