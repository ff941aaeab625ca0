/*
 * step.h: the steps of limits as scripts of Redis carry them out.
 *
 * A script call has any number of steps, which run one after another at one reading of Redis's
 * clock, with nothing between. For each it returns what it saw; step_read makes outcomes of that
 * by algo_step and uses_step. A step of `repeat` requests grants as many as fit, from the first.
 *
 * Steps of one `group` are all or nothing: when one is refused, no other takes.
 */
#ifndef REDIS_STEP_H
#define REDIS_STEP_H

#include "algo/algo.h"
#include "base/buffer.h"
#include "redis/network/reply.h"
#include "redis/steps/units.h"

#define STEP_REPEAT_MAX 1024

struct redis_step {
	const struct algo_limit *limit;
	struct slice key;   /* the name in Redis, from step_key */
	struct algo_call call;
	uint32_t repeat;    /* requests alike: 1 to STEP_REPEAT_MAX; 1 but for ALGO_ACQUIRE */
	uint32_t group;     /* 0: none */
	struct moment at;   /* our clock; Redis's counts */
	bool is_given;      /* for tests: `at` counts, which all steps of a call have alike */
	uint32_t turn;      /* the server's number in lines of those whose swaps meet; 0: it takes no
	                       turns */
	uint32_t turn_us;   /* how long a turn of its is at most, by Redis's clock */
	struct step_units units; /* of a limit of which servers may hold chunks */
	bool is_converted; /* the outcomes are by a state converted from other parameters, which Redis
	                      has not stored */
	struct exchange *exchange; /* it is what a server says of a limit that a fleet decides; or NULL */
	/* The steps' own, from the first step_write to step_end: zero at first. */
	struct {
		unsigned char tries, kind;
		bool by_c;  /* no script can decide it on the state that is there */
		bool mends; /* `swap` goes before the step, and is not the step itself */
		bool in_line; /* a swap came too late, and others may have to wait for this step */
		bool leaves;  /* which is to end, since there is nothing to swap */
		uint64_t clock_ns; /* Redis's, as it was heard last; 0: never */
		struct step_swap *swap;
	} own;
};

/* How a step ended. */
enum step_end {
	STEP_DONE,
	STEP_AGAIN,    /* nothing was changed: write it again, now that more is known */
	STEP_LATER,    /* the same, but it is another's turn: wait a little */
	STEP_WITHHELD, /* it would have been granted, but another of its group was refused */
	STEP_UNASKED,  /* another of its group was refused before it was known whether this one is */
	STEP_FAILED,   /* the reply is nonsense, or it was tried too often */
};

/** Appends the key's name: prefix{KEY}:LIMIT, each percent-encoded. */
void step_key(struct buffer *out, const char *prefix, struct slice key, const char *limit);
/** How many steps a call has at most; and with how many it is full, unless a group needs more. */
#define STEP_CALL_MAX  64
#define STEP_CALL_FULL 48

/* One call: its text, and the script that it calls. */
struct step_call {
	const char *source; /* of the script; lives for ever */
	char sha[41];
};

/** A script of one argument, a key: fails if the user of Redis may not run what others call. */
const struct step_call *step_probe(void);

/**
 * Appends EVALSHA of `n` steps (1 to STEP_CALL_MAX) to `out`, and says which script it calls:
 * what SCRIPT LOAD loads, if Redis says NOSCRIPT. ENOMEM: nothing was appended.
 */
int step_write(struct redis_step *const *steps, size_t n, struct buffer *out,
               struct step_call *call);
/**
 * How the i-th of the `n` steps of a call ended. STEP_DONE, STEP_WITHHELD and STEP_UNASKED fill `repeat`
 * outcomes, and of those that took something the times by which a refund names it.
 */
enum step_end step_read(struct redis_step *const *steps, size_t n, size_t i,
                        const struct redis_reply *reply, struct algo_outcome *outcomes,
                        uint64_t *until_ns);
/** Redis's clock as it was at the call of `n` steps: Unix time; 0: the reply doesn't say. */
uint64_t step_clock(const struct redis_reply *reply, size_t n);
/** Frees what the step owns. */
void step_end(struct redis_step *step);

#endif
