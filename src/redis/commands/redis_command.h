/*
 * redis_command.h: an operation, or several that are alike, as a command for Redis.
 *
 * The store client gathers operations as commands. A command has the limit, the key and the
 * arguments, the operations that wait for its outcome, and the state of its way to Redis.
 *
 * A call of a script carries any number of commands. Redis carries these out one after another at
 * one reading of its clock, with nothing between. For each the script returns the value as it was,
 * of which command_read makes outcomes by algo_step and uses_step. A command that repeats an
 * acquire grants as many as fit, from the first.
 *
 * Commands of one `group` are all or nothing: when one is refused, no other takes.
 */
#ifndef REDIS_COMMAND_H
#define REDIS_COMMAND_H

#include "algo/algo.h"
#include "base/buffer.h"
#include "base/list.h"
#include "redis/cache/denial_cache.h"
#include "redis/commands/chunk_units.h"
#include "redis/network/reply.h"

#define COMMAND_REPEAT_MAX 1024

struct store_operation;

/* First to last. */
struct command_list {
	struct redis_command *first, **last;
};

/*
 * The part that a command has in a chunk (cache/chunks.h), from when the command is made until it
 * has ended. Until then the client's later requests for the key are not granted here: they keep
 * their order.
 */
struct command_chunk {
	struct cache_name name;
	bool is_counted;   /* chunk_register has found the chunk */
	bool is_requested; /* the answer was CACHE_REQUEST_CHUNK */
	bool settles;    /* the command was made to settle the chunk */
	bool settles_in_call; /* the call that is under way settles the chunk */
};

struct redis_command {
	/* The question to Redis: */
	const struct algo_limit *limit;
	struct slice key; /* its name in Redis, from command_key */
	struct algo_call call;
	uint32_t repeat;  /* requests alike: 1 to COMMAND_REPEAT_MAX; 1 but for ALGO_ACQUIRE */
	uint32_t group;   /* 0 outside of groups */
	struct moment at; /* our clock; Redis's counts */
	bool is_given;    /* for tests: `at` counts, and is the same for all commands of a call */
	uint32_t ticket;  /* the server's number in the line for a swap, or 0 if it takes no turns */
	uint32_t ticket_us;         /* how long its turn is at most, by Redis's clock */
	struct command_units units; /* of a limit of which servers may hold chunks */
	struct exchange *exchange;  /* a server's message to its quorum group, or NULL */
	/* The next try, from the first command_write to command_end; zero at first: */
	struct {
		unsigned char tries, kind;
		bool decided_by_c; /* no script can decide the command on the state that is there */
		bool swaps_first;  /* `swap` goes before the command, and is not the command itself */
		bool has_ticket;   /* a swap came too late, and others may have to wait for this command */
		bool withdraws;    /* the command ends its turn, since there is nothing to swap */
		uint64_t clock_ns; /* Redis's, from the last reply, or 0 */
		struct command_swap *swap;
	} attempt;
	/* The outcome is by a state converted from other parameters, which Redis has not stored. */
	bool is_converted;

	/* In the store client: */
	struct redis_command *next;
	struct store_operation *operations, **last; /* in order, by `next` */
	struct buffer name;                         /* the memory of `key` */
	unsigned slot;
	unsigned ask;         /* 1 + the node that gets it with ASKING, or 0 for the node of the slot */
	bool is_alone;        /* Redis could not do it together with others */
	unsigned loads;       /* times that its script had to be loaded */
	unsigned redirects;   /* times that another node was named for it */
	uint64_t deadline_ns; /* 0 until it is handed to a node */
	/* Order, where the command may need several calls: */
	bool is_slow;
	struct list_node slow_node;
	struct command_list followers; /* of the same key, to be sent behind it */
	struct redis_command *newest;  /* of the followers */

	/* In the cache: */
	struct command_chunk chunk;
	struct store_operation *waiters, **last_waiter; /* later requests, which the chunk may grant */
	bool may_be_cached; /* its denial may be repeated without asking Redis */
	uint32_t invalidations;
	struct cache_name cached_as;
	uint64_t asked_ns;
};

/* How a try of a command ended. */
enum command_end {
	COMMAND_DONE,
	COMMAND_AGAIN,    /* nothing was changed: write it again, now that more is known */
	COMMAND_LATER,    /* the same, but another server has its turn: wait a little */
	COMMAND_WITHHELD, /* it would have been granted, but another of its group was refused */
	COMMAND_UNASKED,  /* another of its group was refused before this one was decided */
	COMMAND_FAILED,   /* the reply is nonsense, or there were too many tries */
};

struct command_result {
	enum command_end end;
	struct algo_decision outcomes[COMMAND_REPEAT_MAX]; /* of the requests */
	uint64_t until_ns[COMMAND_REPEAT_MAX];            /* the times by which refunds name them */
};

/** Appends the key's name: prefix{KEY}:LIMIT, each percent-encoded. */
void command_key(struct buffer *out, const char *prefix, struct slice key, const char *limit);
/** The most commands of a call; and with how many it is full, unless a group needs more. */
#define CALL_COMMANDS_MAX  64
#define CALL_COMMANDS_FULL 48

/* A script of Redis. */
struct script_text {
	const char *source; /* lives for ever */
	char sha[41];
};

/** A script of one argument, a key: fails if the user of Redis may not run what others call. */
const struct script_text *command_recovery_script(void);

/**
 * Appends EVALSHA of `n` commands (1 to CALL_COMMANDS_MAX) to `out`, and sets the script that it
 * calls: what SCRIPT LOAD loads, if Redis says NOSCRIPT. ENOMEM: nothing was appended.
 */
int command_write(struct redis_command *const *commands, size_t n, struct buffer *out,
                  struct script_text *script);
/**
 * How the i-th of the `n` commands of a call ended. COMMAND_DONE, COMMAND_WITHHELD and
 * COMMAND_UNASKED fill `repeat` outcomes and, for those that took something, the times by which a
 * refund names it.
 */
enum command_end command_read(struct redis_command *const *commands, size_t n, size_t i,
                              const struct redis_reply *reply, struct command_result *out);
/** Redis's clock as it was at the call of `n` commands: Unix time; 0 if the reply has none. */
uint64_t command_clock(const struct redis_reply *reply, size_t n);
/** Frees the state of the next try. */
void command_end(struct redis_command *command);

#endif
