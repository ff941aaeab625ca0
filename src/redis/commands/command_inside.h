/*
 * command_inside.h: declares what only the files of commands/ use: the *kind* of a command, which
 * says by which function of the Lua scripts Redis carries it out, and the functions that write the
 * arguments of a script and read its reply.
 */
#ifndef REDIS_COMMAND_INSIDE_H
#define REDIS_COMMAND_INSIDE_H

#include "redis/commands/command_words.h"
#include "redis/commands/redis_command.h"

/* The form in which a command stands in a call: which function of the scripts carries it out. */
enum command_kind {
	KIND_PEEK,        /* the value is read, and C decides */
	KIND_PEEK_PASSES, /* the same in a group, after an earlier try would have passed */
	KIND_READ,        /* the value is read; the next try swaps it */
	KIND_SWAP,        /* writes the value that C has made, if the old one has not changed since */
	KIND_WITHDRAW,    /* removes the client from the queue for a swap, and reads the value */
	KIND_RESET,       /* deletes any value */
	/* Refunds; C computes how much they returned: */
	KIND_BUCKET_REFUND,
	KIND_SLOTS_REFUND,
	KIND_WINDOW_REFUND,
	/* Acquires; the script returns how many requests were granted: */
	KIND_BUCKET,
	KIND_DAY, /* refunds, too */
	KIND_LOG, /* any operation, as KIND_PLACES */
	KIND_PLACES,
	KIND_SLOTS,
	KIND_WINDOW,
	/* Any operation on a key of which servers may hold chunks: */
	KIND_BUCKET_CHUNK,
	KIND_WINDOW_CHUNK,
	KIND_COUNT,
};

/* The replacement of one value by another. */
struct command_swap {
	uint64_t made_at_ns; /* Redis's clock for which C has made the new value */
	uint64_t life_ms; /* lifetime of the new value; with 0 the script decides by the new value, but
	                     does not store it */
	size_t old_len, new_len;
	char text[]; /* the old value, then the new one; an empty one means no value */
};

static inline struct slice swap_old(const struct command_swap *swap)
{
	return (struct slice){swap->text, swap->old_len};
}

static inline struct slice swap_new(const struct command_swap *swap)
{
	return (struct slice){swap->text + swap->old_len, swap->new_len};
}

/*
 * A script returns one of these in place of the number of granted requests if it has not decided
 * the command (scripts/begin.lua).
 */
enum undecided {
	UNDECIDED_VALUE_DIFFERS =
	    -1,                    /* the value is not what the script expects: decide by the value */
	UNDECIDED_BY_SCRIPT = -2,  /* no script can decide it */
	UNDECIDED_RESERVED = -3,   /* the key is reserved for another server's swap */
	UNDECIDED_HAS_CHUNKS = -4, /* servers hold chunks of the key, which other scripts handle */
	UNDECIDED_LEAST = UNDECIDED_HAS_CHUNKS,
};

/** Whether the command takes nothing in any state: a peek, or a request without cost. */
static inline bool command_only_reads(const struct redis_command *command)
{
	return command->call.op == ALGO_PEEK || command->limit->algorithm->draws ||
	       (command->call.op != ALGO_RESET && command->call.cost == 0);
}

/**
 * Whether the state is a list at Redis. Scripts decide such commands, and return only the uses that
 * matter.
 */
static inline bool command_state_is_list(const struct redis_command *command)
{
	return command->limit->record == ALGO_RECORD_LOG ||
	       command->limit->record == ALGO_RECORD_LEASES;
}

/** Whether the command's script handles chunks. */
static inline bool command_handles_chunks(const struct redis_command *command)
{
	return command->attempt.kind == KIND_BUCKET_CHUNK || command->attempt.kind == KIND_WINDOW_CHUNK;
}

/* In command_arguments.c: */

#define TIME_DIGITS_MAX 20
#define SWAP_ARGUMENTS  5

/* The arguments of a kind of command. */
struct command_format {
	const char *name;
	unsigned script;         /* enum script: the script for this kind alone */
	unsigned argument_count; /* of a run */
	/* The texts (returns their end) and the numbers of a run, in one argument; ... */
	char *(*add_texts)(char *texts, const struct redis_command *command);
	void (*add_numbers)(struct numbers *numbers, const struct redis_command *command);
	/* ... the numbers of each command, which may differ within a run, in a second argument; ... */
	void (*add_command_numbers)(struct numbers *numbers, const struct redis_command *command);
	/* ... or all arguments of a kind that has neither. */
	void (*add_arguments)(struct buffer *out, const struct redis_command *command);
};

const struct command_format *command_format(const struct redis_command *command);
/** Appends the arguments of `n` commands that are one run. */
void command_add_arguments(struct buffer *out, struct redis_command *const *commands, size_t n);
void command_add_swap(struct buffer *out, const struct redis_command *command);

/* In command_reply.c: */

struct value;

/**
 * Reads the value of the i-th of `n` commands. False if it is invalid, or if there is no memory.
 * Call value_free in any case.
 */
bool command_read_value(struct redis_command *command, size_t n, size_t i,
                        const struct redis_reply *reply, struct value *value);
/** Reads the state of value->text as of value->time. False if there is no memory. */
bool command_read_state(const struct redis_command *command, struct value *value);

/** The time at which Redis decides a command, given its clock. */
static inline struct moment command_moment(const struct redis_command *command, uint64_t clock_ns)
{
	return command->uses_given_time ? command->local_time : moment_given(clock_ns);
}

#endif
