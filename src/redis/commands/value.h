/*
 * value.h: the form of a state in Redis, which operators read, too.
 *
 * A value is its head and its fields, parted by blanks:
 *
 *     ALGORITHM 5/s 10 1700000000123456
 *
 * The head names the algorithm and the period, the zone of calendar windows, and all parameters
 * that a reader needs. A value with another head is converted (other parameters), or it is no
 * state of this limit at all.
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
	VALUE_CONVERTS, /* the same algorithm and period, but other parameters */
	VALUE_OTHER,    /* of another limit, or nonsense */
	VALUE_NO_MEMORY,
};

/* The value of a key, as the reply to a call gives it. */
struct value {
	/* The state, as the steps of `algo` take it: */
	struct algo_state word; /* of limits without rows, ... */
	struct uses uses;       /* ... and of all others */
	struct algo_layout from; /* VALUE_CONVERTS: of the parameters that it was written under */
	enum value_fit fit;
	/* The rest of the reply, for command_read: */
	int64_t granted; /* requests, or less than 0 where the script could not decide */
	bool has_text;
	struct slice text;
	bool has_chunks;     /* another script has to be called, which knows of chunks */
	struct slice chunks; /* behind the state; they stay there when the state is converted */
	uint64_t former_ns;  /* the end of a converted state before, by which permits name it, or 0 */
	uint64_t hidden_ns;  /* how much sooner a converted value ends than with all that is in use */
	uint64_t clock_ns;
	struct algo_time time;
};

/** The head with a blank at its end. Returns its length. */
size_t value_header(const struct algo_limit *limit, char header[VALUE_HEADER_MAX]);

/**
 * Reads the state of a value; an empty text is a state never used. A list has room for `more` uses
 * than it has. Free with value_free whatever it returns.
 */
enum value_fit value_read(const struct algo_limit *limit, struct slice text, size_t more,
                          struct value *value);
void value_free(struct value *value);

/**
 * A bucket's value lives until the end of the block of time that its state reaches into, so that its
 * lifetime need not be renewed on every hit: a minute, or the time of some tokens if that is
 * longer, but not longer than it takes to fill. The next hit relies on the lifetime that the last one
 * has set. So limits that share a value have blocks of one length, which follows from the head alone:
 * a minute where the head has no parameters.
 */
uint64_t value_block_us(const struct algo_limit *limit);

/**
 * Appends the value, or nothing if the state is one never used. Returns how long it has to live, in
 * milliseconds, at least 1.
 */
uint64_t value_write(const struct algo_limit *limit, const struct value *value, uint64_t now_ns,
                     struct buffer *out);

#endif
