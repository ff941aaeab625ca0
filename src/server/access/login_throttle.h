/*
 * login_throttle.h: what all workers share to check logins: the thread that computes hashes, and
 * who guesses.
 *
 * Logins that are wrong are counted for each address (an IPv6 network of 64 bits is one), by a
 * bucket of Weir's own: 10, and one each 6 s. Beyond that no hash is computed for the address. A
 * login that is known passes in any case, and so does one that its connection has sent before.
 *
 * Bounds: LOGIN_THROTTLE_WAITING passwords; beyond that a login is refused as one too many. One
 * thread computes, with the memory of one hash. The table of addresses has a fixed size.
 */
#ifndef SERVER_LOGIN_THROTTLE_H
#define SERVER_LOGIN_THROTTLE_H

#include <stdatomic.h>
#include <stdbool.h>

#include <weir/pool.h>

#include "base/network/ip.h"

#define LOGIN_THROTTLE_WAITING 64

/* All zero: it is not open. */
struct login_throttle {
	weir_pool *pool;
	weir_table *failures;
	weir_limit *failures_limit;
	_Atomic bool closing; /* what still waits need not be computed */
};

/** Once there are users. Does nothing if it is open. 0 or ENOMEM. */
int login_throttle_open(struct login_throttle *throttle);
/** When no loop runs any more. Waits for one hash at most, if tasks heed `closing`. */
void login_throttle_close(struct login_throttle *throttle);

/** Counts a failure of the address. False: it has had too many; `error` says when it may come back.
 */
bool login_throttle_charge(struct login_throttle *throttle, const struct ip *address,
                           struct weir_error *error);
/** It was none. */
void login_throttle_refund(struct login_throttle *throttle, const struct ip *address);

#endif
