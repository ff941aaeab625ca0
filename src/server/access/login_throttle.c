/*
 * login_throttle.c: limits how many wrong logins an address may send, by a limit of Weir's own, and
 * has the thread that computes the hashes of passwords.
 */
#include "server/access/login_throttle.h"

#include "base/error.h"
#include "base/number.h"
#include "base/os/os.h"

/* Wrong logins of an address: this many at once, and as many each minute. */
#define WRONG_LOGINS_MAX 10
#define ADDRESSES_MAX    65536 /* number of addresses in the table */

#define IPV6_NETWORK_BYTES 8

int login_throttle_open(struct login_throttle *throttle)
{
	/* one thread; the bucket is the number of logins that may wait for it */
	const struct weir_pool_options pool = {.workers = 1, .bucket = LOGIN_THROTTLE_WAITING};
	const struct weir_table_options table = {.capacity = ADDRESSES_MAX};
	const struct weir_limit_options limit = {.name = "logins",
	                                         .rate = {WRONG_LOGINS_MAX, 1, WEIR_UNIT_MINUTE}};
	int status;

	if (throttle->pool) /* an earlier configuration had users */
		return WEIR_OK;
	status = weir_table_open(&table, &throttle->failures, NULL);
	if (status == WEIR_OK)
		status = weir_limit_open(&limit, &throttle->failures_limit, NULL);
	if (status == WEIR_OK)
		status = weir_pool_open(&pool, &throttle->pool, NULL);
	if (status != WEIR_OK)
		login_throttle_close(throttle);
	return status;
}

void login_throttle_close(struct login_throttle *throttle)
{
	atomic_store_explicit(&throttle->closing, true, memory_order_relaxed);
	if (throttle->pool)
		weir_pool_close(throttle->pool);
	if (throttle->failures)
		weir_table_close(throttle->failures);
	if (throttle->failures_limit)
		weir_limit_close(throttle->failures_limit);
	*throttle = (struct login_throttle){0};
}

/* All bytes of an IPv4 address; those of the network of an IPv6 address. */
static size_t counted_bytes(const struct ip *address)
{
	return ip_is_v4(address) ? sizeof address->bytes : IPV6_NETWORK_BYTES;
}

bool login_throttle_charge(struct login_throttle *throttle, const struct ip *address,
                           struct weir_error *error)
{
	struct weir_decision d;
	int status =
	    weir_acquire(throttle->failures, throttle->failures_limit,
	                 (struct weir_key){address->bytes, counted_bytes(address)}, 1, WEIR_NOW, &d);

	if (status == WEIR_OK && d.allowed)
		return true;
	error_set(error, WEIR_EAUTH, "too many wrong logins from this address: try again in %llu s",
	          status == WEIR_OK ? (unsigned long long)ceil_div(d.retry_after_ns, NS_PER_S) : 1);
	return false;
}

void login_throttle_refund(struct login_throttle *throttle, const struct ip *address)
{
	struct weir_decision d;

	weir_refund(throttle->failures, throttle->failures_limit,
	            (struct weir_key){address->bytes, counted_bytes(address)}, 1, WEIR_NOW, &d);
}
