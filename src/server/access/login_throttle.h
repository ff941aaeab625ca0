/*
 * login_throttle.h: bounds the checks of logins for all workers: one thread computes the hashes,
 * and wrong logins are counted by address.
 *
 * The counter is a bucket of Weir's own: 10 wrong logins at once, and one each 6 s. An IPv6 network
 * of 64 bits counts as one address. Beyond that no hash is computed for the address. A login that
 * is known to be right always passes, and so does the last right login of a connection.
 *
 * Bounds: LOGIN_THROTTLE_WAITING passwords may wait; further ones are refused. One thread computes,
 * with the memory of one hash. The table of addresses has a fixed size.
 */
#ifndef SERVER_LOGIN_THROTTLE_H
#define SERVER_LOGIN_THROTTLE_H

#include <stdatomic.h>
#include <stdbool.h>

#include <weir/pool.h>

#include "base/network/ip.h"

#define LOGIN_THROTTLE_WAITING 64

/* Not open if all zero. */
struct login_throttle {
	weir_pool *pool;
	weir_table *failures;
	weir_limit *failures_limit;
	_Atomic bool closing; /* checks that still wait may be skipped */
};

/** Opens it when a configuration has users; does nothing if it is open. Returns 0 or ENOMEM. */
int login_throttle_open(struct login_throttle *throttle);
/** Called when no loop runs any more. Waits for one hash at most, if tasks check `closing`. */
void login_throttle_close(struct login_throttle *throttle);

/**
 * Counts a wrong login of the address. Returns false if it has had too many; `error` then says when
 * to try again.
 */
bool login_throttle_charge(struct login_throttle *throttle, const struct ip *address,
                           struct weir_error *error);
/** Undoes login_throttle_charge, because the login was right. */
void login_throttle_refund(struct login_throttle *throttle, const struct ip *address);

#endif
