/* ask.h: a request to acquire as struct weir_ask says it, of limiters, tables and rules alike. */
#ifndef API_ASK_H
#define API_ASK_H

#include "algo/algo.h"
#include "wait/sleep.h"

struct ask {
	struct algo_call call;
	bool waits;       /* its thread blocks until it passes, or ... */
	uint64_t time_ns; /* until this deadline. Else: when it is asked, or WEIR_NOW */
};

/** Its call, with the time that is left until its deadline. */
static inline struct algo_call ask_call(const struct ask *ask)
{
	struct algo_call call = ask->call;

	if (__builtin_expect(ask->waits, 0))
		call.max_wait_ns = wait_until(ask->time_ns);
	return call;
}

/** 0, or EINVAL and ERANGE as weir_ask. */
int ask_read(const struct weir_ask *from, struct ask *ask);

#endif
