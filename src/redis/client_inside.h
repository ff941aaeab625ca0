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
	_Atomic bool is_unavailable;  /* what options.switched was last called with */
	struct denial_cache *denials; /* NULL if denials are not cached */
	struct chunks *chunks;
	pthread_mutex_t lock;            /* guards the members below */
	char failure[REDIS_FAILURE_MAX]; /* the newest reason why the store was unavailable, or "" */
	struct list clients;
	struct redis_stats closed; /* the counts of clients that were closed */
};

/* Handles the reply to a command of Redis that calls no script; NULL after the connection ended. */
typedef void send_on_reply(struct redis_node *node, const struct redis_reply *reply);

/* A call of a script by a node, with the commands that it carries out; or another command of Redis.
 */
struct script_call {
	struct pending_reply base; /* first */
	struct redis_node *node;
	send_on_reply *on_reply; /* NULL if this calls a script */
	struct redis_command *commands[CALL_COMMANDS_MAX];
	/* 0 if this calls no script, and if all commands have failed at their deadline. */
	size_t command_count;
	struct script_text script;
	size_t weight;            /* its cost for Redis; an acquire on a bucket counts 1 */
	uint64_t sequence_number; /* counts the calls of the node */
	uint64_t sent_ns;
	uint64_t deadline_ns;
};

/* One client's connection to one Redis server, with the commands and calls for it. */
struct redis_node {
	struct redis_client *client;
	unsigned number; /* of the node in the cluster (cluster.h) */
	struct redis_host host;
	struct redis_dialer *dialer;
	struct connection *connection; /* NULL until it is ready */
	/* Commands that wait for the connection, or until fewer calls are under way. */
	struct command_list waiting;
	/* While retries are assigned: the link at the end of the commands that waited before. */
	struct redis_command **older_waiting_end;
	size_t weight_under_way;    /* the sum of the calls without a reply */
	bool reached_weight_max;    /* therefore commands wait */
	uint64_t calls_sent;        /* so far */
	const char *loaded_source;  /* the source of the script that was loaded last */
	uint64_t loaded_at_call;    /* calls_sent at that time */
	bool check_is_under_way;    /* a recovery check was sent, and not answered: ... */
	bool check_loads_script;    /* it loads and calls a script, which must succeed, ... */
	bool scripts_are_refused;   /* the user may not call scripts, or Redis runs none at present */
	uint64_t ready_deadline_ns; /* 0 once the connection is ready */
	/* The client was late at its last check of deadlines, and has read replies since. */
	bool was_checked_late;
	uint64_t era;           /* of its availability, when the node was connected or has recovered */
	bool must_not_be_freed; /* one of its functions is under way */
	bool must_request_map;  /* request the map of slots from it when it is ready */
	bool is_sentinel;
	bool is_replica;               /* it has refused a write because it is a replica */
	unsigned master_request_count; /* how often a Sentinel was asked for the master */
	char unusable_because[200];    /* why the node has to be made unavailable, or "" */
	bool must_be_closed;           /* the connection, for the same reason */
};

/** Whether the node's connection is ready for commands: Redis has accepted the greeting. */
static inline bool node_is_ready(const struct redis_node *node)
{
	return node->ready_deadline_ns == 0;
}

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

/*
 * The state of batching.c. After calls were answered, the client waits a little for the next
 * requests of the clients that got these answers.
 */
struct batching {
	uint64_t newest_key_hash;     /* of the key whose command was sent last */
	uint64_t answered_operations; /* since calls were last under way */
	uint64_t round_trip_ns;       /* of the newest call */
	uint64_t wait_ends_ns;        /* 0 outside of a wait */
	/* With so many operations the wait has paid, and with so many it ends at once. */
	uint64_t operations_to_pay, operations_to_end;
	/* After a wait in vain the next 1, 3, 7, ... waits are left out. */
	uint64_t waits_to_skip;      /* of these, how many are still to come */
	uint64_t waits_skipped_last; /* how many there were after the last wait; 0 if that has paid */
};

#define CLIENT_SLOW_LISTS 256 /* a power of two */

struct redis_client {
	struct store_client client; /* first */
	struct redis_store *store;
	struct redis_transport *transport;
	struct list_node node;                       /* in the store's list */
	struct redis_node *nodes[CLUSTER_NODES_MAX]; /* by number, or NULL */
	unsigned node_end;                           /* above all numbers in use */
	struct command_list retries;         /* commands to be assigned to nodes again, at once */
	struct command_list delayed_retries; /* the same, but only at delayed_until_ns */
	uint64_t delayed_until_ns;
	struct batch batch;
	/* Commands that may need several calls, by the hash of the key; the newest first. */
	struct list slow_commands[CLIENT_SLOW_LISTS];
	size_t slow_command_count;
	size_t operation_count; /* of operations that are submitted and not complete */
	size_t command_count;   /* of their commands */
	uint32_t newest_group;  /* the number of the last group that was made */
	/* Identifies the client in the queue for a swap; never 0 (scripts/common.lua). */
	uint32_t queue_ticket;
	uint64_t alarm_ns;           /* or 0 */
	uint64_t now_ns;             /* of this iteration, by the monotonic clock; 0 until it is read */
	uint64_t redis_clock_ns;     /* Redis's clock at the call whose reply is being read */
	uint64_t sentinels_due_ns;   /* when to ask the Sentinels again */
	uint64_t idle_chunks_due_ns; /* when to search for idle chunks, or 0 if there are none */
	struct batching batching;
	size_t calls_under_way;
	bool has_sent_calls;   /* in this iteration */
	bool batch_is_delayed; /* by batching_must_wait */
	bool is_stopping;      /* it takes no further chunks */
	bool is_closing;
	struct redis_command *free_commands;
	struct list free_calls;
	size_t free_command_count;
	struct command_result result; /* of the command whose reply is being read */
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
#define RETRY_DELAY_NS NS_PER_MS

/* Assigns the command to a node again after RETRY_DELAY_NS. */
static inline void command_retry_later(struct redis_client *client, struct redis_command *command)
{
	if (!client->delayed_retries.first)
		client->delayed_until_ns = client_now_ns(client) + RETRY_DELAY_NS;
	command_append(&client->delayed_retries, command);
	client_alarm_at(client, client->delayed_until_ns);
}

#endif
