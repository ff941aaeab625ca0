/*
 * client_inside.h: declares the structs that the files of src/redis share: the store, its clients,
 * their nodes and calls.
 *
 *     operation -> command -> call -> node
 *
 * A client makes a command of each operation, or adds the operation to a command that requests the
 * same (commands.h). At the end of an iteration of the loop it assigns its commands to nodes, which
 * write them as calls of scripts (redis_node.h, send.h). The reply to a call completes its commands
 * (script_reply.h).
 */
#ifndef REDIS_CLIENT_INSIDE_H
#define REDIS_CLIENT_INSIDE_H

#include <pthread.h>

#include "base/os/os.h"
#include "redis/cache/chunks.h"
#include "redis/cache/denial_cache.h"
#include "redis/commands/redis_command.h"
#include "redis/network/connection.h"
#include "redis/network/dialer.h"
#include "redis/nodes/cluster.h"
#include "redis/nodes/sentinels.h"
#include "redis/redis.h"

/*
 * The most operations of a client. A group that exceeds them fails with ESTORE, unless the client
 * has no other operations.
 */
#define CLIENT_OPERATIONS_MAX ((size_t)64 << 10)

/*
 * A node whose unanswered calls have this weight gets no further call. Redis carries out everything
 * that it has read from a connection before it serves another one, so the bound leaves time for
 * other users. A command that waits longer than these calls take waits because of others' load, or
 * because the node hangs.
 */
#define NODE_WEIGHT_MAX 48
#define CALL_WEIGHT     4 /* the weight of a call itself, added to that of its commands */

struct redis_node;

struct redis_store {
	struct store store; /* first */
	struct redis_options options;
	char *prefix;
	struct redis_url url;
	struct cluster *cluster;
	struct addresses addresses;
	_Atomic bool is_unavailable;  /* as options.switched was last called */
	struct denial_cache *denials; /* NULL if denials are not cached */
	struct chunks *chunks;
	pthread_mutex_t lock; /* guards the two members below */
	struct list clients;
	struct redis_stats closed; /* the counts of clients that were closed */
};

typedef void send_on_reply(struct redis_node *node, const struct redis_reply *reply);

struct script_call {
	struct pending_reply base; /* first */
	struct redis_node *node;
	/* Handles the reply to a command of Redis that is no script; otherwise NULL. */
	send_on_reply *on_reply;
	struct redis_command *commands[CALL_COMMANDS_MAX];
	size_t count; /* 0 for such a command, and if all commands have failed at their deadline */
	struct script_text script;
	size_t weight;   /* its cost for Redis; an acquire on a bucket counts 1 */
	uint64_t number; /* counts the calls of the node */
	uint64_t sent_ns;
	uint64_t deadline_ns;
};

/* One client's connection to one Redis server, with the commands and calls for it. */
struct redis_node {
	struct redis_client *client;
	unsigned number;
	struct redis_host host;
	struct redis_dialer *dialer;
	struct connection *connection; /* NULL until it is ready */
	/* Commands that wait for the connection, or for the weight to shrink. */
	struct command_list waiting;
	/* While retries are assigned: the end of the commands that were waiting before. */
	struct redis_command **older;
	size_t weight;              /* of the calls without a reply */
	bool was_full;              /* commands wait because of the weight */
	uint64_t calls;             /* sent so far */
	const char *loaded;         /* the source of the script that was loaded last */
	uint64_t loaded_at;         /* `calls` at that time */
	bool is_checked;            /* a recovery check is under way: ... */
	bool loads;                 /* it loads and calls a script, which must succeed, ... */
	bool scripts_are_refused; /* and the user may not call scripts, or Redis runs none at present */
	uint64_t ready_deadline_ns; /* 0 once the connection is ready */
	/* The client has checked its deadlines too late, and reads replies before it checks again. */
	bool was_late;
	uint64_t era; /* of its availability, when the node was connected or has recovered */
	bool is_busy;               /* one of its functions is under way, so it must not be freed */
	bool asks_map;              /* ask it for the map when it is ready */
	bool is_sentinel;
	bool is_replica;   /* it has refused a write because it is a replica */
	unsigned asked;    /* times that a Sentinel was asked for the master */
	char trouble[200]; /* why it is unavailable, or "" */
	bool is_lost;      /* set with `trouble` if the connection has to be closed */
};

#define BATCH_INDEX_SIZE 256 /* a power of two, above CALL_COMMANDS_MAX */

/* The newest command of the batch for a key. An entry of an earlier batch counts as empty. */
struct batch_index_entry {
	uint64_t batch_number;
	struct redis_command *command;
};

/* The commands that a client has gathered since it last sent some. */
struct batch {
	struct command_list commands;
	size_t count;
	uint64_t number;
	struct batch_index_entry index[BATCH_INDEX_SIZE]; /* by the hash of the key, linear probing */
};

/* The state of batching.c. */
struct batching {
	uint64_t newest_key; /* the hash of the key that was sent last */
	uint64_t answered;   /* operations completed since calls were last under way */
	uint64_t round_ns;   /* the round trip of the newest call */
	uint64_t until_ns;   /* the end of the wait for further requests, or 0 outside of a wait */
	/* The wait has paid from `min_operations` on, and ends at `max_operations`. */
	uint64_t min_operations, max_operations;
	uint64_t skips_left; /* waits that are still to be left out, since the last was in vain */
	uint64_t skips;      /* waits to be left out after the next vain one: 0, 1, 3, 7, ... */
};

#define CLIENT_SLOW 256 /* a power of two */

struct redis_client {
	struct store_client client; /* first */
	struct redis_store *store;
	struct redis_transport *transport;
	struct list_node node;                       /* of the store's */
	struct redis_node *nodes[CLUSTER_NODES_MAX]; /* by number, or NULL */
	unsigned node_end;                           /* above all numbers in use */
	struct command_list again;                   /* commands to be assigned to nodes again */
	struct command_list later;                   /* the same, from later_ns on */
	uint64_t later_ns;
	struct batch batch;
	struct list slow[CLIENT_SLOW]; /* commands that may need several calls: by key, newest first */
	size_t slow_count;
	size_t operations;
	size_t steps;      /* commands */
	uint32_t groups;   /* the number of the newest group */
	/* Identifies the client in the queue for a swap; never 0 (scripts/common.lua). */
	uint32_t ticket;
	uint64_t alarm_ns; /* or 0 */
	uint64_t now_ns;   /* of this iteration, by the monotonic clock; 0 until it is read */
	uint64_t clock_ns; /* Redis's clock at the call whose reply is being read */
	uint64_t map_ns;   /* when to ask Sentinels again */
	uint64_t idle_ns;  /* when to search for idle chunks, or 0 if there are none */
	struct batching batching;
	size_t on_the_way; /* calls */
	bool has_sent;     /* in this iteration */
	bool batch_is_delayed; /* batching.h has delayed the batch */
	bool is_stopping;      /* it takes no further chunks */
	bool is_closing;
	struct redis_command *free_commands;
	struct list free_calls;
	size_t free_count;
	struct command_result result; /* of the command that is being read */
	/* Only the client's thread writes them; any thread reads them, by atomics. */
	struct redis_stats counts;
};

/** The calls of a node without a reply, the oldest first. */
static inline const struct list *node_calls(const struct redis_node *node)
{
	static const struct list none;

	return node->connection ? connection_pending(node->connection) : &none;
}

/** In client.c: submits operations, as the store's kind does. */
void redis_client_submit(struct store_client *client, struct store_operation *group);

static inline void count_more(uint64_t *count, uint64_t n)
{
	/* Only the client's thread writes, so this needs no locked instruction. */
	__atomic_store_n(count, *count + n, __ATOMIC_RELAXED);
}

static inline uint64_t client_now_ns(struct redis_client *client)
{
	if (client->now_ns == 0)
		client->now_ns = os_monotonic_ns();
	return client->now_ns;
}

/* Has redis_client_tick called at that time, or earlier. */
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

/* Empties the list and returns its first command. */
static inline struct redis_command *command_list_take(struct command_list *list)
{
	struct redis_command *first = list->first;

	command_list_clear(list);
	return first;
}

/*
 * The delay before a command is tried again whose key is moving to another node, or is reserved for
 * another server's swap.
 */
#define LATER_NS NS_PER_MS

/* Has the command assigned to a node again after LATER_NS. */
static inline void command_retry_later(struct redis_client *client, struct redis_command *command)
{
	if (!client->later.first)
		client->later_ns = client_now_ns(client) + LATER_NS;
	command_append(&client->later, command);
	client_alarm_at(client, client->later_ns);
}

#endif
