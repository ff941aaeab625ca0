/*
 * work.h: the data of a loop: the requests of its turn, their clients, and its own state.
 *
 * It is only data. Each file of this folder may see it, and it sees none of the files that
 * decide (handle.h), wait (queue.h), answer (hold.h) or run the loop (worker.h).
 */
#ifndef SERVER_WORK_H
#define SERVER_WORK_H

#include <pthread.h>
#include <stdalign.h>
#include <stdatomic.h>

#include "base/arena.h"
#include "base/heap.h"
#include "base/list.h"
#include "engine/engine.h"
#include "net/net.h"
#include "proto/codec.h"
#include "server/access/logins.h"
#include "server/access/secret.h"
#include "server/access/users.h"
#include "server/admin/events.h"
#include "server/admin/forced.h"
#include "server/admin/log.h"
#include "server/admin/metrics.h"
#include "server/admin/phased.h"
#include "server/admin/switches.h"
#include "server/config.h"
#include "server/requests/adhoc.h"
#include "server/stores/fleets.h"
#include "server/stores/lanes.h"
#include "server/stores/report_poll.h"
#include "stats/top.h"
#include "tls/tls.h"

#define WORKER_ORDER_FILTER 4096
#define WORKER_SLICE        1024         /* units of work of a batch in a turn, see engine_work */
#define WORKER_UNIT_SIZE    ((size_t)64) /* so many bytes of a round count as a unit */

struct worker_protocol {
	const struct codec *codec;
	enum metrics_protocol metric;
	bool is_admin; /* its listener is the one for admin calls */
};

/* All workers share this. */
struct worker_shared {
	bool has_admin; /* a listener takes the admin calls away from the others */
	weir_table *table;
	struct metrics *metrics;
	struct top *top;
	struct phased *phases;
	struct log *log;
	struct events *events; /* the log's */
	struct stores stores;
	struct secrets secrets; /* of permits */
	struct switches switches;
	struct fleets fleets;
	struct reports reports;
	struct forced forced;
	struct logins logins;
	struct net_gate gate;
	_Atomic uint64_t idle_timeout_ms[METRICS_PROTOCOL_COUNT];
	struct codec_limits limits;
	size_t threads; /* workers */
	_Atomic bool stopping;
};

struct held;
struct parked;

struct login_job;

/* The users of a connection, all of the configuration `serial`. See login.h. */
struct client_login {
	uint64_t serial;
	const struct user *user;   /* of requests without a login; NULL: nobody */
	struct hash_key kept;      /* that user's id, if a login ... */
	bool is_kept;              /* ... was sent for the connection */
	const struct user *proved; /* of the last login that was right; NULL: none */
	uint64_t tag;              /* that login, see users_tag */
	struct hash_key mark;      /* of the last login whose hash was computed, ... */
	int status;                /* ... if it is refused, why, once */
	struct login_job *job;     /* that computes its hash; or NULL */
};

/* Why a connection is put off (net_conn_put_off), as a set. */
enum client_put_off {
	CLIENT_LOGIN = 1,     /* a login's hash is computed */
	CLIENT_ADMISSION = 2, /* it is in the admission queue, see crowd.h */
};

/* The server's part of a connection. */
struct client {
	struct list_node in_crowd;   /* while it waits for stores, see crowd.h */
	struct net_conn *conn;       /* then, and ... */
	size_t weight;               /* about how many steps it would bring */
	bool is_next;                /* it has waited, and has leave */
	bool is_behind;              /* it waits with a batch for those of others */
	bool has_split;              /* a batch of it has items that are not begun */
	struct list held;            /* its works that are not answered, see hold.h */
	struct list ordered;         /* those that keep others in order, see order.h, ... */
	size_t wide;                 /* and how many of them have many keys */
	uint64_t event;              /* the number of the first one that it is told of, if it follows */
	size_t coming;               /* about how many bytes of replies the batch has for it */
	struct client_login login;
	alignas(max_align_t) unsigned char session[]; /* the codec's */
};

/*
 * A request on its way through the server, from the batch of its loop: what its plan and its
 * answer need, and no decision, for that is rendered when it is made. A work that outlives the
 * turn is copied, once, to memory of its own (park.h).
 */
struct work {
	struct net_conn *conn;
	union {
		/* The request, in the arena, if the answer needs more than the head; else NULL. */
		const struct request *whole;
		const char *message; /* instead, of a status that is not 0, but for REQUEST_LOCAL */
		size_t end;          /* when it is decided: of its answer in worker.out */
	};
	union {
		struct request_head head;
		struct {
			REQUEST_HEAD;
		};
	};
	struct plan plan;
};

_Static_assert(sizeof(struct work) <= 192, "a turn of a thousand fits into the second cache");

/*
 * The whole of a REQUEST_BATCH. If its items are more work than a batch may be in one turn, only the
 * first of them are prepared when it is read. It is parked, and goes on in the turns that follow:
 * later.h.
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

/* See page.h. */
struct page {
	struct buffer text;
	uint64_t batch; /* in which it was rendered; 0: never */
};

struct worker {
	struct worker_shared *shared;
	struct net_filter secure; /* of its listeners with TLS */
	struct tls_recent recent; /* of the connections to them */
	struct net_loop *loop;
	size_t index;
	uint64_t opened; /* connections so far */
	pthread_t thread;
	bool running;
	struct server_config *config; /* the newest when the turn began; owns a reference */
	bool in_turn;
	bool was_reloaded;           /* some of what waits may have lost its user */
	uint64_t start_ns;           /* when the first bytes of the batch were read */
	struct turn turn;            /* of its decisions */
	struct carried_list carried; /* the turn's configuration's, for the codecs */
	struct codec_limits limits;  /* with `carried`; sessions hold on to it */
	struct arena arena;
	struct request parsed;   /* what the first requests of a batch are parsed into */
	struct request *parsing; /* that, or one in the arena since that is a work's whole; or NULL */
	struct request blank;    /* of which only the head is ever set */
	struct adhoc adhoc;
	const struct user *user;   /* of the request that is read; NULL: nobody, or there are none */
	struct weir_error refusal; /* of its login; status 0: it is right, or there is none */
	const char *forced_by;     /* struct switched's `by` of what the worker forces now, or NULL */
	struct work *batch;
	struct buffer out; /* the batch's answers, as they were rendered */
	size_t count;
	size_t coming;        /* about how many bytes of replies */
	uint64_t batches;     /* this one's number, from 1 */
	struct heap holds;    /* see hold.h, as for `decisions` */
	uint64_t decisions;   /* of what was held */
	uint64_t stop_ns;     /* how long what is unfinished is waited for */
	size_t *at_store;     /* of the parked work that is run: plans that stores have */
	struct list ready; /* parked works that stores have told of, oldest first; see later.c */
	struct list split; /* batches with items that are not begun, oldest first; see later.h */
	size_t split_count;   /* clients with such batches */
	bool splits;          /* the works of the batch have such a batch among them */
	size_t slice;         /* as much work of a batch is prepared now */
	struct arena plans;   /* of items that are run at once, in a turn that goes on with a batch */
	struct list spare; /* memory of some that are no more, see park.c */
	size_t spare_count;
	struct submit_spares spares;
	uint32_t order_filter[WORKER_ORDER_FILTER]; /* see order.h: works of clients, by key */
	struct list polls; /* parked works, first of queues, which look at stores; see queue.c */
	uint64_t poll_ns;                  /* when some do; 0: there are none */
	struct list crowd; /* see crowd.h */
	size_t beginning;                  /* streams that the batch begins; see stream.h */
	struct list streams;
	struct lanes lanes;
	struct secret_keeper *keeper; /* of the first worker alone, where there is a store */
	uint64_t foreign_quiet_ns;    /* until when another foreign_protocol is not told */
	uint64_t refused_quiet_ns;    /* the same of proxy_refused */
	uint64_t insecure_quiet_ns;   /* and of tls_failed */
	uint64_t guessing_quiet_ns;   /* and of login_refused */
	pthread_mutex_t lock;
	struct list woken;  /* under the lock; see queue.c */
	struct list logins; /* likewise: jobs whose passwords were computed */
	struct page pages[REQUEST_KIND_COUNT];
	struct top_ends top_ends; /* of the page REQUEST_TOP */
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
	struct batch *batch = work->kind == REQUEST_BATCH && work->status == WEIR_OK
	                          ? (struct batch *)work->whole
	                          : NULL;

	return batch && batch->begun < batch->request.item_count ? batch : NULL;
}

static inline struct metrics_loop *metrics_of(const struct worker *worker)
{
	return metrics_loop(worker->shared->metrics, worker->index);
}

#endif
