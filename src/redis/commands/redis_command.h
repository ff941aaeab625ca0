/*
 * redis_command.h: declares a command for Redis: one operation, or several that are alike, with
 * their key and arguments and the state of its tries.
 *
 * A call of a script carries any number of commands. Redis carries them out one after another at
 * one reading of its clock, and nothing else in between. For each command the script returns the
 * value of the key as it was before; command_read makes outcomes of that by algo_step and
 * uses_step. A command that repeats an acquire grants as many requests as fit, from the first.
 *
 * Commands of one `group` are all or nothing: if one is refused, no other takes units.
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

/* A list by `next`; `last` points to the pointer at its end. */
struct command_list {
	struct redis_command *first, **last;
};

/*
 * A command's use of a chunk (cache/chunks.h), from when the command is made until it has ended.
 * Until then the client's later requests for the key wait for it: they keep their order.
 */
struct command_chunk {
	struct cache_name name;
	bool is_registered;     /* the chunk counts the command (chunk_register) */
	bool takes_chunk;       /* the command also reserves a chunk: after CACHE_REQUEST_CHUNK */
	bool is_made_to_settle; /* the command has no other purpose than to settle the chunk */
	bool is_settling;       /* a try has settled the chunk: its settlements_under_way count this */
};

struct redis_command {
	/* The request to Redis: */
	const struct algo_limit *limit;
	struct slice key; /* the key's name at Redis, from command_key */
	struct algo_call call;
	/* How many equal requests it makes: 1 to COMMAND_REPEAT_MAX; more than 1 only of ALGO_ACQUIRE.
	 */
	uint32_t request_count;
	uint32_t group;   /* 0 outside of groups */
	struct moment local_time; /* by this server's clock; Redis decides by its own */
	/* For tests: Redis decides at local_time, which is the same for all commands of a call. */
	bool uses_given_time;
	uint32_t queue_ticket; /* the client's number in the queue for a swap, or 0 to join no queue */
	uint32_t
	    reservation_us; /* the longest time for which that queue reserves a key for the client */
	struct chunk_settlement settlement; /* for limits of which servers may hold chunks */
	struct exchange *exchange;  /* a server's message to its quorum group, or NULL */
	/*
	 * The state of the present and the next try, from the first command_write to command_end; zero
	 * at first:
	 */
	struct {
		unsigned char tries, kind;
		unsigned char group_verdict; /* on the last reply, for the next command of its group */
		bool no_script_decides; /* on the present state of the key; so C decides, and swaps */
		/* `swap` is written before the script decides the command, and is not its outcome. */
		bool swap_is_preparation;
		bool may_be_queued;      /* a swap came too late, so the client may be in the key's queue */
		bool must_leave_queue;   /* in the next try, because there is nothing to swap */
		uint64_t redis_clock_ns; /* at the last reply, or 0 */
		struct command_swap *swap;
	} attempt;
	/*
	 * The outcome is by a state that was converted from other parameters and that Redis has not
	 * stored.
	 */
	bool is_converted;

	/* For the store client: */
	struct redis_command *next;
	struct store_operation *operations, **last; /* in the order of submission, by `next` */
	struct buffer name;                         /* the memory of `key` */
	unsigned slot;
	/* 1 + the node that gets the command after ASKING, or 0 for the node of the slot. */
	unsigned asking_node_plus_1;
	bool needs_own_call;     /* Redis could not carry it out in one call with others */
	unsigned load_count;     /* how often its script had to be loaded */
	unsigned redirect_count; /* how often another node was named for it */
	uint64_t deadline_ns; /* 0 until it is first assigned to a node */
	/* For followers.h, where the command may need several calls: */
	bool is_slow;
	struct list_node slow_node;
	/* Later commands of the same key, sent when this one has ended. */
	struct command_list followers;
	struct redis_command *newest_follower;

	/* For the cache: */
	struct command_chunk chunk_use;
	struct store_operation *waiters, **last_waiter; /* later requests, which wait for the chunk */
	bool may_be_cached;     /* a denial may be repeated without asking Redis, ... */
	uint32_t invalidations; /* ... if the key was not refunded since: denial_cache_store */
	struct cache_name denial_name; /* of that denial in the denial cache */
	uint64_t written_at_ns;        /* when the call was written, by the local clock */
};

/* The result of a try of a command. */
enum command_end {
	COMMAND_DONE,
	COMMAND_AGAIN,     /* nothing was changed: write it again, with what the reply showed */
	COMMAND_LATER,     /* the same, but the key is reserved for another server: wait a little */
	COMMAND_WITHHELD,  /* it would pass, but another command of its group was refused */
	COMMAND_UNDECIDED, /* another command of its group was refused, and this one is undecided */
	COMMAND_FAILED,    /* the reply is invalid, or there were too many tries */
};

struct command_result {
	enum command_end end;
	struct algo_decision outcomes[COMMAND_REPEAT_MAX]; /* one for each repeated request */
	uint64_t until_ns[COMMAND_REPEAT_MAX]; /* the times by which refunds identify them */
};

/** Appends the key's name: prefix{KEY}:LIMIT, each percent-encoded. */
void command_key(struct buffer *out, const char *prefix, struct slice key, const char *limit);
/** The most commands of a call, and the number from which on only a group may add more. */
#define CALL_COMMANDS_MAX  64
#define CALL_COMMANDS_FULL 48

/* A script of Redis. */
struct script_text {
	const char *source; /* never freed */
	char sha[41];
};

/**
 * The script of recovery checks. Its argument is a key. It fails if the user may not run a command
 * that other scripts call.
 */
const struct script_text *command_recovery_script(void);

/**
 * Appends EVALSHA of `n` commands (1 to CALL_COMMANDS_MAX) to `out`, and sets the script that it
 * calls, for SCRIPT LOAD if Redis replies NOSCRIPT. After ENOMEM nothing was appended.
 */
int command_write(struct redis_command *const *commands, size_t n, struct buffer *out,
                  struct script_text *script);
/**
 * Reads the reply to the i-th of the `n` commands of a call: once for each command, in their order.
 * COMMAND_DONE, COMMAND_WITHHELD and COMMAND_UNDECIDED fill `repeat` outcomes and, for requests
 * that took units, the times by which refunds identify them.
 */
enum command_end command_read(struct redis_command *const *commands, size_t n, size_t i,
                              const struct redis_reply *reply, struct command_result *out);
/** Redis's clock at the call of `n` commands, in Unix time; 0 if the reply has none. */
uint64_t command_clock(const struct redis_reply *reply, size_t n);
/** Frees the state of a command's tries. */
void command_free_swap(struct redis_command *command);

#endif
