/* command_inside.h: what command_write.c and command_read.c share. */
#ifndef REDIS_COMMAND_INSIDE_H
#define REDIS_COMMAND_INSIDE_H

#include "redis/commands/redis_command.h"
#include "redis/commands/command_words.h"

/* The role of a step in a call. */
enum step_kind {
	STEP_ASK,    /* the value is read, and C knows the answer */
	STEP_PASS,   /* the same in a group, once it is known to pass */
	STEP_READ,   /* the value is read, for a swap */
	STEP_SWAP,   /* writes what C has made of the value, if that has not changed since */
	STEP_LEAVE,  /* others need not wait for a swap any more; and the value is read again */
	STEP_RESET,  /* any value is deleted */
	/* Refunds, of which C tells what they gave back: */
	STEP_BUCKET_REFUND,
	STEP_SLOTS_REFUND,
	STEP_WINDOW_REFUND,
	/* Acquires, of which the script tells how many were granted: */
	STEP_BUCKET,
	STEP_DAY,    /* a refund, too */
	STEP_LOG,    /* this and places: whatever is asked of it */
	STEP_PLACES,
	STEP_SLOTS,
	STEP_WINDOW,
	/* All that is asked of a key of which servers may hold chunks: */
	STEP_BUCKET_CHUNK,
	STEP_WINDOW_CHUNK,
	STEP_KINDS,
};

/* A value that takes the place of another. */
struct command_swap {
	uint64_t at_ns;   /* the time that the new one is of */
	uint64_t life_ms; /* of the new one; 0: a question, which supposes it and writes nothing */
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
static inline bool command_is_question(const struct redis_command *step)
{
	return step->call.op == ALGO_PEEK || step->limit->algorithm->draws ||
	       (step->call.op != ALGO_RESET && step->call.cost == 0);
}

/** Whether its state is a list at Redis, of which scripts decide all and return what says the same. */
static inline bool command_is_listed(const struct redis_command *step)
{
	return step->limit->rows == ALGO_ROWS_LOG || step->limit->rows == ALGO_ROWS_PLACES;
}

/** Whether its script knows of chunks. */
static inline bool command_knows_chunks(const struct redis_command *step)
{
	return step->own.kind == STEP_BUCKET_CHUNK || step->own.kind == STEP_WINDOW_CHUNK;
}

/* In command_arguments.c: */

#define TIME_DIGITS_MAX 20
#define SWAP_ARGUMENTS  5

/** Appends the arguments of so many commands that are one run. */
void command_add_arguments(struct buffer *out, struct redis_command *const *commands, size_t n);
void command_add_swap(struct buffer *out, const struct redis_command *command);
/** Whether commands of a run may differ in more than their keys. */
bool command_varies(const struct redis_command *command);

/**
 * In step_reply.c: the i-th of what a reply says of `n` steps: their values, and then the clock. Where all was granted,
 * it may be one text, of a double for each: below 2^53.
 */
struct redis_reply command_item(const struct redis_reply *reply, size_t n, size_t i);
/**
 * How many requests of the i-th step were granted: all, unless the values behind the clock say
 * otherwise: pairs of a step's number, counted from 1, and that. False: nonsense.
 */
bool command_granted(const struct redis_reply *reply, size_t n, size_t i, int64_t *granted);

/** The time of a command by Redis's clock. */
static inline struct moment command_moment(const struct redis_command *command, uint64_t clock_ns)
{
	return command->is_given ? command->at : moment_given(clock_ns);
}

#endif
