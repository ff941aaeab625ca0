/*
 * client_inside.h: a store on Redis from inside: the store, its clients, their nodes, calls and
 * commands.
 *
 *     operation -> command -> call -> node
 *
 * A client makes a command of each operation, or adds the operation to a command that asks the same
 * (batch.h). At the end of a turn it hands its commands to nodes, which write them as calls of
 * scripts (node.h). The reply of a call completes its commands (call.h).
 */
#ifndef REDIS_CLIENT_INSIDE_H
#define REDIS_CLIENT_INSIDE_H

#include <pthread.h>

#include "base/os/os.h"
#include "redis/cache/chunks.h"
#include "redis/cache/denials.h"
#include "redis/network/dialer.h"
#include "redis/network/connection.h"
#include "redis/nodes/cluster.h"
#include "redis/nodes/sentinels.h"
#include "redis/redis.h"
#include "redis/commands/redis_command.h"

/*
 * A client keeps at most so many. A whole group beyond fails with ESTORE, unless it is the only
 * one.
 */
#define CLIENT_OPERATIONS_MAX ((size_t)64 << 10)

/*
 * A node that has calls of this weight on their way gets more when they are answered. Redis carries
 * out what it has read of a connection before it looks at others, so these have their turn; and
 * what waits long for a node is late by the load that others bring, or by a node that hangs.
 */
#define NODE_WEIGHT_MAX 48
#define CALL_WEIGHT     4 /* of a call beside its steps */

struct redis_store {
	struct store store; /* first */
	struct redis_options options;
	char *prefix;
	struct redis_url url;
	struct cluster *cluster;
	struct addresses addresses;
	_Atomic bool is_away;  /* as `switched` was told */
	struct denials *denials; /* NULL where none are stored */
	struct chunks *chunks;
	pthread_mutex_t lock; /* of: */
	struct redis_client *clients;
	struct redis_stats closed; /* sums of clients that are closed */
};

struct call {
	struct connection_call base; /* first */
	struct redis_node *node;
	struct call *next; /* of those that were sent behind it */
	struct redis_command *commands[CALL_COMMANDS_MAX];
	size_t count; /* 0: they had no time left, or there were none */
	struct script_text script;
	size_t weight;   /* what it costs Redis, in steps */
	uint64_t number; /* of the node's calls */
	uint64_t sent_ns;
	uint64_t deadline_ns;
};

/* A Redis that a client is connected to, or will be. */
struct redis_node {
	struct redis_client *client;
	unsigned number;
	struct redis_host host;
	struct redis_dialer *dialer;
	struct connection *connection; /* NULL until it is ready */
	struct command_list waiting;   /* for the connection to be ready, or for replies */
	struct redis_command *
	    *older;                 /* while commands are handed out again: the end of the newer ones */
	struct call *first, **last; /* sent, without a reply, ... */
	size_t weight;              /* and what they cost Redis, in steps */
	bool was_full;              /* as much as may be: others wait for them */
	uint64_t calls;             /* so far */
	const char *loaded;         /* the source of the script that was loaded last, ... */
	uint64_t loaded_at;         /* and how many calls there were before */
	struct {
		struct connection_call base; /* first */
		struct connection_call load, may;
		bool loads;           /* a script of its own, which is to succeed */
		bool may_not;         /* the user may not call scripts, or Redis runs none now */
		uint64_t deadline_ns; /* 0: none is sent */
	} probe;
	uint64_t ready_deadline_ns; /* 0: the connection is ready */
	bool was_late;              /* the client itself looked too late at its deadlines */
	uint64_t era;               /* of its health, when it was connected or found back */
	bool is_busy;               /* one of its functions is under way: it must stay */
	bool asks_map;              /* is to be asked for the map when it is ready */
	bool is_sentinel;
	bool is_replica;   /* it has refused a write, because it follows another */
	unsigned asked;    /* times that a Sentinel was asked for the master */
	char trouble[200]; /* why it is away; "": it is not */
	bool is_lost;      /* with trouble: the connection is of no use */
};

#define BATCH_SPOTS 256 /* a power of two */

/* The place of the batch's newest command for a key. */
struct spot {
	uint64_t turn; /* another one than the batch's: empty */
	struct redis_command *command;
};

/* The commands that a client has gathered since it sent some. */
struct batch {
	struct command_list commands;
	size_t count;
	uint64_t turn;
	struct spot spots[BATCH_SPOTS];
};

/* The state of gather.c. */
struct gather {
	uint64_t newest_key;  /* the hash of the last one that was sent */
	uint64_t answered;    /* operations, since calls were on their way */
	uint64_t round_ns;    /* how long the newest call took */
	uint64_t until_ns;    /* clients that were answered may ask again until then; 0: none */
	uint64_t least, most; /* the operations there are when that has paid, and when all have asked */
	uint64_t rest, penalty; /* times that none are awaited, for they did not come */
};

#define CLIENT_SLOW 256 /* a power of two */

struct redis_client {
	struct store_client client; /* first */
	struct redis_store *store;
	struct redis_transport *transport;
	struct redis_client *next;                   /* of the store's */
	struct redis_node *nodes[CLUSTER_NODES_MAX]; /* NULL: not connected */
	unsigned node_end;                           /* no number is as great */
	struct command_list again;                   /* to be handed to nodes anew, ... */
	struct command_list later;                   /* and those for which it is too early, ... */
	uint64_t later_ns;                           /* until then */
	struct batch batch;
	struct redis_command
	    *slow[CLIENT_SLOW]; /* commands that may have to be made again, by key; newest first */
	size_t slow_count;
	size_t operations;
	size_t steps;      /* commands */
	uint32_t groups;   /* the last that was named */
	uint32_t turn;     /* the client's number among those of all servers */
	uint64_t alarm_ns; /* 0: none */
	uint64_t now_ns;   /* of this turn, by the monotonic clock; 0: not asked yet */
	uint64_t clock_ns; /* Redis's, at the call that is being read */
	uint64_t map_ns;   /* when to ask Sentinels again */
	uint64_t idle_ns;  /* when to look for chunks that nobody uses; 0: there are none */
	struct gather gather;
	size_t on_the_way; /* calls */
	bool has_sent;     /* in this turn */
	bool is_held;      /* the batch waits: gather.h */
	bool is_stopping;  /* it takes nothing in advance any more */
	bool is_closing;
	struct redis_command *free_commands;
	struct call *free_calls;
	size_t free_count;
	struct command_result result; /* of the command that is being read */
	/* Only the client's thread writes them; any thread reads them, by atomics. */
	struct redis_stats counts;
};

/** In client.c. The store's kind. */
void redis_client_submit(struct store_client *client, struct store_operation *group);

static inline void count_more(uint64_t *count, uint64_t n)
{
	/* One thread writes, so that no locked instruction is needed. */
	__atomic_store_n(count, *count + n, __ATOMIC_RELAXED);
}

static inline uint64_t client_now_ns(struct redis_client *client)
{
	if (client->now_ns == 0)
		client->now_ns = os_monotonic_ns();
	return client->now_ns;
}

/* Calls redis_client_tick then, or earlier. */
static inline void client_alarm_at(struct redis_client *client, uint64_t at_ns)
{
	if (client->alarm_ns != 0 && client->alarm_ns <= at_ns)
		return;
	client->alarm_ns = at_ns;
	client->transport->kind->alarm(client->transport, at_ns);
}

static inline void command_append(struct command_list *list, struct redis_command *command)
{
	command->next = NULL;
	*list->last = command;
	list->last = &command->next;
}

static inline void command_list_clear(struct command_list *list)
{
	*list = (struct command_list){NULL, &list->first};
}

/* Takes all. */
static inline struct redis_command *command_list_take(struct command_list *list)
{
	struct redis_command *first = list->first;

	command_list_clear(list);
	return first;
}

/* Until the client tries again with keys that are on their way to another node, or with which
   another server has its turn. */
#define LATER_NS NS_PER_MS

/* Keeps a command, to be handed to nodes then. */
static inline void command_later(struct redis_client *client, struct redis_command *command)
{
	if (!client->later.first)
		client->later_ns = client_now_ns(client) + LATER_NS;
	command_append(&client->later, command);
	client_alarm_at(client, client->later_ns);
}

#endif
