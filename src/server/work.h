/*
 * work.h: what a loop works on: the requests of its turn, their clients, what it keeps.
 *
 * It is data alone: each file of this folder may see it, and it sees none of those that
 * decide (handle.h), wait (queue.h), answer (hold.h) or run the loop (worker.h).
 */
#ifndef SERVER_WORK_H
#define SERVER_WORK_H

#include <pthread.h>
#include <stdalign.h>
#include <stdatomic.h>

#include "base/arena.h"
#include "base/heap.h"
#include "engine/engine.h"
#include "net/net.h"
#include "proto/codec.h"
#include "server/adhoc.h"
#include "server/config.h"
#include "server/log.h"
#include "server/metrics.h"
#include "stats/top.h"

struct worker_protocol {
	const struct codec *codec;
	enum metrics_protocol metric;
};

/* What all workers share. */
struct worker_shared {
	weir_table *table;
	struct metrics *metrics;
	struct top *top;
	struct log *log;
	struct net_gate gate;
	_Atomic uint64_t idle_timeout_ms[METRICS_PROTOCOL_COUNT];
	struct codec_limits limits;
	size_t threads; /* workers */
	_Atomic bool stopping;
};

struct held;

/* What is kept of a connection. */
struct client {
	struct held *first, **last; /* its works that are not answered, see hold.h */
	size_t coming;              /* about how many bytes of replies the batch has for it */
	alignas(max_align_t) unsigned char session[]; /* the codec's */
};

/* A request on its way through a turn. */
struct work {
	struct net_conn *conn;
	const struct worker_protocol *protocol;
	struct request request;
	struct reply reply;
	struct plan plan;
	uint64_t wait_ns;   /* decided: until it is its turn */
	bool waits_for;     /* a key: it is not decided yet */
	struct work *items; /* REQUEST_BATCH: one for each of the request's */
	size_t item_count;
};

/* See page.h. */
struct page {
	struct buffer text;
	uint64_t batch; /* in which it was rendered; 0: never */
};

struct worker {
	struct worker_shared *shared;
	struct net_loop *loop;
	size_t index;
	uint64_t opened; /* connections so far */
	pthread_t thread;
	bool running;
	struct server_config *config; /* the newest when the turn began; owns a reference */
	bool in_turn;
	uint64_t start_ns; /* when the first bytes of the batch were read */
	struct turn turn;  /* of its decisions */
	struct carried_list carried; /* the turn's configuration's, for the codecs */
	struct codec_limits limits;  /* with `carried`; sessions hold on to it */
	struct arena arena;
	struct adhoc adhoc;
	struct work *batch;
	size_t count;
	size_t coming;    /* about how many bytes of replies */
	uint64_t batches; /* this one's number, from 1 */
	struct heap holds;  /* see hold.h, as for `decisions` */
	uint64_t decisions; /* of what was held */
	uint64_t stop_ns;   /* how long what is unfinished is waited for */
	uint64_t foreign_quiet_ns; /* until when another foreign_protocol is not told */
	pthread_mutex_t lock;
	struct queued *woken; /* under the lock; see queue.c */
	struct page pages[REQUEST_KIND_COUNT];
	struct top_ends top_ends; /* of the page REQUEST_TOP */
};

static inline const struct worker_protocol *protocol_of(const struct net_conn *conn)
{
	return net_conn_tag(conn);
}

/* Of a work that is decided. */
static inline void reply_to(const struct work *work, struct buffer *out)
{
	struct client *client = net_conn_data(work->conn);

	work->protocol->codec->reply(client->session, &work->request, &work->reply, out);
}

static inline struct client *client_of(struct net_conn *conn)
{
	return net_conn_data(conn);
}

static inline struct metrics_loop *metrics_of(const struct worker *worker)
{
	return metrics_loop(worker->shared->metrics, worker->index);
}

#endif
