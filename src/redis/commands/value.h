/*
 * value.h: reads and writes states as values of Redis, in a form that operators can read.
 *
 * A value is its header and its fields, separated by blanks:
 *
 *     ALGORITHM 5/s 10 1700000000123456
 *
 * The header names the algorithm and the period, the zone of calendar windows, and all parameters
 * that a reader needs. A value with another header is converted if only parameters differ;
 * otherwise it is no state of this limit.
 *
 * A time has 16 digits, microseconds of Unix time, or 19, nanoseconds.
 */
#ifndef REDIS_VALUE_H
#define REDIS_VALUE_H

#include "algo/uses/uses.h"
#include "base/buffer.h"

#define VALUE_HEADER_MAX 192

enum value_fit {
	VALUE_OURS,
	VALUE_CONVERTS, /* same algorithm and period, other parameters */
	VALUE_OTHER,    /* of another limit, or invalid */
	VALUE_NO_MEMORY,
};

/* The value of a key, read from the reply to a call. */
struct value {
	/* The state, for the steps of `algo`: */
	struct algo_state state; /* of limits without records, ... */
	struct uses uses;       /* ... and of all others */
	struct algo_layout
	    former_layout; /* of a VALUE_CONVERTS: the parameters that it was written under */
	enum value_fit fit;
	/* The rest of the reply, for command_read: */
	int64_t granted_count; /* of requests; if negative, an enum undecided */
	bool has_text;
	struct slice text;
	bool has_chunks;     /* the command needs a script that handles chunks */
	struct slice chunks; /* follow the state, and stay when it is converted */
	/* The end of the state before a conversion, by which permits name it, or 0. */
	uint64_t former_end_ns;
	/* How much earlier the converted state ends than all use that it stands for. */
	uint64_t hidden_use_ns;
	uint64_t clock_ns;
	struct algo_time time;
};

/** Writes the header, with a blank at its end. Returns its length. */
size_t value_header(const struct algo_limit *limit, char header[VALUE_HEADER_MAX]);

/**
 * Reads the state of a value; an empty text is a state that was never used. A list gets capacity
 * for `more` uses than it has. Call value_free whatever this returns.
 */
enum value_fit value_read(const struct algo_limit *limit, struct slice text, size_t more,
                          struct value *value);
void value_free(struct value *value);

/**
 * The length of the blocks of time by which a bucket's value lives: until the end of the block that
 * its state reaches into, so not every hit has to renew the lifetime. A block is a minute, or the
 * time of some tokens if that is longer, at most the time to fill the bucket. A hit relies on the
 * lifetime that an earlier one has set. Therefore limits that share a value have blocks of one
 * length, which follows from the header alone: a minute if the header has no parameters.
 */
uint64_t value_block_us(const struct algo_limit *limit);

/**
 * Appends the value, or nothing if the state was never used. Returns its lifetime in milliseconds,
 * at least 1.
 */
uint64_t value_write(const struct algo_limit *limit, const struct value *value, uint64_t now_ns,
                     struct buffer *out);

#endif
