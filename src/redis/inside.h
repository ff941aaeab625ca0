/*
 * inside.h: a store on Redis from inside: the store, its lanes, their nodes, calls and tasks.
 *
 *     job -> task -> call -> node
 *
 * A lane makes a task of each job, or adds the job to a task that asks the same (batch.h). At the
 * end of a turn it hands its tasks to nodes, which write them as calls of scripts (node.h). The
 * reply of a call completes its tasks (call.h).
 */
#ifndef REDIS_INSIDE_H
#define REDIS_INSIDE_H

#include <pthread.h>

#include "base/os/os.h"
#include "redis/known/chunk.h"
#include "redis/known/denied.h"
#include "redis/network/connection.h"
#include "redis/network/link.h"
#include "redis/nodes/cluster.h"
#include "redis/nodes/sentinels.h"
#include "redis/redis.h"
#include "redis/steps/step.h"

/*
 * A lane keeps at most so many. A whole chain beyond fails with ESTORE, unless it is the only one.
 */
#define LANE_JOBS_MAX ((size_t)64 << 10)

/*
 * A node that has calls of this weight on their way gets more when they are answered. Redis carries
 * out what it has read of a connection before it looks at others, so these have their turn; and what
 * waits long for a node is late by the load that others bring, or by a node that hangs.
 */
#define NODE_WEIGHT_MAX 48
#define CALL_WEIGHT     4 /* of a call beside its steps */

/* The counts of a lane. Only its thread writes them; any thread reads them. */
struct lane_counts {
	_Atomic uint64_t calls, steps, failed, timeouts, switches, denied, chunk;
	_Atomic uint64_t times[REDIS_TIMES], time_ns;
};

struct redis_store {
	struct store store; /* first */
	struct redis_options options;
	char *prefix;
	struct redis_url url;
	struct cluster *cluster;
	struct addresses addresses;
	_Atomic bool is_away;  /* as `switched` was told */
	struct denied *denied; /* NULL: none are kept */
	struct chunks *chunks;
	pthread_mutex_t lock; /* of: */
	struct redis_lane *lanes;
	struct redis_stats closed; /* sums of lanes that are closed */
};

struct task;

/* First to last. */
struct task_list {
	struct task *first, **last;
};

/* A step, and the jobs that wait for it: as many as it repeats. */
struct task {
	struct redis_step step; /* first */
	struct task *next;
	struct store_job *jobs, **last; /* in order, by `next` */
	struct buffer name;             /* of the key in Redis */
	unsigned slot;
	unsigned ask;         /* the node that it is sent to with ASKING, plus 1; 0: its slot's */
	bool is_alone;        /* Redis could not do it together with others */
	unsigned loads;       /* times that its script had to be loaded */
	unsigned redirects;   /* times that another node was named for it */
	uint64_t deadline_ns; /* 0: it was never handed to a node */
	/* For a step that may have to be made again: */
	bool is_slow;
	struct task *slow_next;
	struct task_list followers; /* of the same key, to be sent behind it */
	struct task *newest;        /* of them */
	struct chunk_step chunk;
	/* It takes a chunk: requests of the key that came later, and may be granted from that. */
	struct store_job *waiters, **last_waiter;
	/* For known.c: */
	bool is_question; /* its denial may be repeated without asking */
	uint32_t forgotten;
	struct denied_question question;
	uint64_t asked_ns;
};

struct call {
	struct link_call link; /* first */
	struct redis_node *node;
	struct call *next;                       /* of those that were sent behind it */
	struct redis_step *steps[STEP_CALL_MAX]; /* each the first member of a task */
	size_t count;                            /* 0: they had no time left, or there were none */
	struct step_call script;
	size_t weight;   /* what it costs Redis, in steps */
	uint64_t number; /* of the node's calls */
	uint64_t sent_ns;
	uint64_t deadline_ns;
};

/* A Redis that a lane is connected to, or will be. */
struct redis_node {
	struct redis_lane *lane;
	unsigned number;
	struct redis_host host;
	struct redis_connection *connection;
	struct link *link;          /* NULL until it is ready */
	struct task_list waiting;   /* for the link to be ready, or for replies */
	struct task **older;        /* while tasks are handed out again: the end of the newer ones */
	struct call *first, **last; /* sent, without a reply, ... */
	size_t weight;              /* and what they cost Redis, in steps */
	bool was_full;              /* as much as may be: others wait for them */
	uint64_t calls;             /* so far */
	const char *loaded;         /* the source of the script that was loaded last, ... */
	uint64_t loaded_at;         /* and how many calls there were before */
	struct {
		struct link_call link; /* first */
		struct link_call load, may;
		bool loads;           /* a script of its own, which is to succeed */
		bool may_not;         /* the user may not call scripts, or Redis runs none now */
		uint64_t deadline_ns; /* 0: none is sent */
	} probe;
	uint64_t ready_deadline_ns; /* 0: the link is ready */
	bool was_late;              /* the lane itself looked too late at its deadlines */
	uint64_t era;               /* of its health, when it was connected or found back */
	bool is_busy;               /* one of its functions is under way: it must stay */
	bool asks_map;              /* is to be asked for the map when it is ready */
	bool is_sentinel;
	bool is_replica; /* it has refused a write, because it follows another */
	unsigned asked;  /* times that a Sentinel was asked for the master */
	char trouble[200];          /* why it is away; "": it is not */
	bool is_lost;               /* with trouble: the connection is of no use */
};

#define BATCH_SPOTS 256 /* a power of two */

/* The place of the batch's newest task for a key. */
struct spot {
	uint64_t turn; /* another one than the batch's: empty */
	struct task *task;
};

/* The tasks that a lane has gathered since it sent some. */
struct batch {
	struct task_list tasks;
	size_t count;
	uint64_t turn;
	struct spot spots[BATCH_SPOTS];
};

/* The state of gather.c. */
struct gather {
	uint64_t newest_key;    /* the hash of the last one that was sent */
	uint64_t answered;      /* jobs, since calls were on their way */
	uint64_t round_ns;      /* how long the newest call took */
	uint64_t until_ns;      /* clients that were answered may ask again until then; 0: none */
	uint64_t least, most;   /* the jobs there are when that has paid, and when all have asked */
	uint64_t rest, penalty; /* times that none are awaited, for they did not come */
};

#define LANE_SLOW 256 /* a power of two */

#define LANE_PASSED 256 /* a power of two */

/* A request of this cost would have passed at the key; see known.c. */
struct passed {
	uint64_t key; /* its hash */
	uint64_t cost;
	uint64_t until_ns; /* when that is too old */
};

struct redis_lane {
	struct store_lane lane; /* first */
	struct redis_store *store;
	struct redis_port *port;
	struct redis_lane *next;                     /* of the store's */
	struct redis_node *nodes[CLUSTER_NODES_MAX]; /* NULL: not connected */
	unsigned node_end;                           /* no number is as great */
	struct task_list again;                      /* to be handed to nodes anew, ... */
	struct task_list later;                      /* and those for which it is too early, ... */
	uint64_t later_ns;                           /* until then */
	struct batch batch;
	struct passed passed[LANE_PASSED];
	struct task *slow[LANE_SLOW]; /* tasks that may have to be made again, by key; newest first */
	size_t slow_count;
	size_t jobs;
	size_t steps;      /* tasks */
	uint32_t groups;   /* the last that was named */
	uint32_t turn;     /* the lane's number among those of all servers */
	uint64_t alarm_ns; /* 0: none */
	uint64_t now_ns;   /* of this turn, by the monotonic clock; 0: not asked yet */
	uint64_t clock_ns; /* Redis's, at the call that is being read */
	uint64_t map_ns;   /* when to ask Sentinels again */
	uint64_t idle_ns;  /* when to look for chunks that nobody uses; 0: there are none */
	struct gather gather;
	size_t on_the_way; /* calls */
	bool has_sent; /* in this turn */
	bool is_held;  /* the batch waits: gather.h */
	bool is_stopping; /* it takes nothing in advance any more */
	bool is_closing;
	struct task *free_tasks;
	struct call *free_calls;
	size_t free_task_count;
	struct algo_outcome outcomes[STEP_REPEAT_MAX];
	uint64_t until_ns[STEP_REPEAT_MAX];
	struct lane_counts counts;
};

/** In store.c. Adds the counts of a lane. */
void store_add_counts(struct redis_stats *stats, const struct lane_counts *counts);
/** In lane.c. The store's kind. */
void redis_lane_submit(struct store_lane *lane, struct store_job *chain);

static inline void count_more(_Atomic uint64_t *count, uint64_t n)
{
	/* One thread writes, so that no locked instruction is needed. */
	atomic_store_explicit(count, atomic_load_explicit(count, memory_order_relaxed) + n,
	                      memory_order_relaxed);
}

static inline uint64_t lane_now_ns(struct redis_lane *lane)
{
	if (lane->now_ns == 0)
		lane->now_ns = os_monotonic_ns();
	return lane->now_ns;
}

/* Calls redis_lane_tick then, or earlier. */
static inline void lane_alarm_at(struct redis_lane *lane, uint64_t at_ns)
{
	if (lane->alarm_ns != 0 && lane->alarm_ns <= at_ns)
		return;
	lane->alarm_ns = at_ns;
	lane->port->kind->alarm(lane->port, at_ns);
}

static inline void task_append(struct task_list *list, struct task *task)
{
	task->next = NULL;
	*list->last = task;
	list->last = &task->next;
}

static inline void task_list_clear(struct task_list *list)
{
	*list = (struct task_list){NULL, &list->first};
}

/* Takes all. */
static inline struct task *task_list_take(struct task_list *list)
{
	struct task *first = list->first;

	task_list_clear(list);
	return first;
}

/* Until the lane tries again with keys that are on their way to another node, or with which another
   server has its turn. */
#define LATER_NS NS_PER_MS

/* Keeps a task, to be handed to nodes then. */
static inline void task_later(struct redis_lane *lane, struct task *task)
{
	if (!lane->later.first)
		lane->later_ns = lane_now_ns(lane) + LATER_NS;
	task_append(&lane->later, task);
	lane_alarm_at(lane, lane->later_ns);
}

#endif
