/* command_inside.h: what the files of commands/ share. */
#ifndef REDIS_COMMAND_INSIDE_H
#define REDIS_COMMAND_INSIDE_H

#include "redis/commands/command_words.h"
#include "redis/commands/redis_command.h"

/* The role of a command in a call. */
enum command_kind {
	KIND_PEEK,        /* the value is read, and C knows the answer */
	KIND_PEEK_PASSES, /* the same in a group, once it is known to pass */
	KIND_READ,        /* the value is read, for a swap */
	KIND_SWAP,        /* writes what C has made of the value, if that has not changed since */
	KIND_WITHDRAW,    /* others need not wait for a swap any more; and the value is read again */
	KIND_RESET,       /* any value is deleted */
	/* Refunds; C finds how much they gave back: */
	KIND_BUCKET_REFUND,
	KIND_SLOTS_REFUND,
	KIND_WINDOW_REFUND,
	/* Acquires; the script says how many were granted: */
	KIND_BUCKET,
	KIND_DAY, /* a refund, too */
	KIND_LOG, /* this and places: whatever is asked of it */
	KIND_PLACES,
	KIND_SLOTS,
	KIND_WINDOW,
	/* All that is asked of a key of which servers may hold chunks: */
	KIND_BUCKET_CHUNK,
	KIND_WINDOW_CHUNK,
	KIND_COUNT,
};

/* A value that takes the place of another. */
struct command_swap {
	uint64_t at_ns;   /* the time that the new one is of */
	uint64_t life_ms; /* of the new one; 0 for a question, which supposes the new value and writes
	                     nothing */
	size_t old_len, new_len;
	char text[]; /* both; empty: none */
};

static inline struct slice swap_old(const struct command_swap *swap)
{
	return (struct slice){swap->text, swap->old_len};
}

static inline struct slice swap_new(const struct command_swap *swap)
{
	return (struct slice){swap->text + swap->old_len, swap->new_len};
}

/** Whether it takes nothing, whatever the state: a peek, or a request that costs nothing. */
static inline bool command_only_reads(const struct redis_command *command)
{
	return command->call.op == ALGO_PEEK || command->limit->algorithm->draws ||
	       (command->call.op != ALGO_RESET && command->call.cost == 0);
}

/** Whether its state is a list at Redis, of which scripts decide all and return what says the same. */
static inline bool command_is_listed(const struct redis_command *command)
{
	return command->limit->record == ALGO_RECORD_LOG ||
	       command->limit->record == ALGO_RECORD_LEASES;
}

/** Whether its script knows of chunks. */
static inline bool command_knows_chunks(const struct redis_command *command)
{
	return command->attempt.kind == KIND_BUCKET_CHUNK || command->attempt.kind == KIND_WINDOW_CHUNK;
}

/* In command_arguments.c: */

#define TIME_DIGITS_MAX 20
#define SWAP_ARGUMENTS  5

/* A kind of command, as scripts have it. */
struct command_format {
	const char *name;
	unsigned script;    /* enum script: of the kind alone */
	unsigned arguments; /* of a run */
	/* Texts, whose end is returned, and numbers: they are one argument; ... */
	char *(*add_texts)(char *texts, const struct redis_command *command);
	void (*add_numbers)(struct numbers *numbers, const struct redis_command *command);
	/* ... the numbers of each command, which may differ in a run, are a second one; ... */
	void (*add_each)(struct numbers *numbers, const struct redis_command *command);
	/* ... or all arguments. */
	void (*add)(struct buffer *out, const struct redis_command *command);
};

const struct command_format *command_format(const struct redis_command *command);
/** Appends the arguments of so many commands that are one run. */
void command_add_arguments(struct buffer *out, struct redis_command *const *commands, size_t n);
void command_add_swap(struct buffer *out, const struct redis_command *command);

/* In command_reply.c: */

struct value;

/**
 * Reads the value of the i-th of `n` commands. False if that is nonsense, or if there is no memory.
 * Free with value_free in any case.
 */
bool command_read_value(struct redis_command *command, size_t n, size_t i,
                        const struct redis_reply *reply, struct value *value);
/** Reads the state of value->text, at value->time. False if there is no memory. */
bool command_read_state(const struct redis_command *command, struct value *value);

/** The time of a command by Redis's clock. */
static inline struct moment command_moment(const struct redis_command *command, uint64_t clock_ns)
{
	return command->is_given ? command->at : moment_given(clock_ns);
}

#endif
