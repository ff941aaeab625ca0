#include "server/access/login_throttle.h"

#include "base/error.h"
#include "base/number.h"
#include "base/os/os.h"

/* Wrong logins of an address: so many at once, and as many each minute. */
#define FAILURES       10
#define FAILURES_NAMES 65536 /* number of addresses in the table */

#define IPV6_NETWORK 8 /* bytes */

int login_throttle_open(struct login_throttle *throttle)
{
	const struct weir_pool_options pool = {.workers = 1, .bucket = LOGIN_THROTTLE_WAITING};
	const struct weir_table_options table = {.capacity = FAILURES_NAMES};
	const struct weir_limit_options limit = {.name = "logins",
	                                         .rate = {FAILURES, 1, WEIR_UNIT_MINUTE}};
	int status;

	if (throttle->pool)
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

static size_t network_len(const struct ip *address)
{
	return ip_is_v4(address) ? sizeof address->bytes : IPV6_NETWORK;
}

bool login_throttle_charge(struct login_throttle *throttle, const struct ip *address,
                           struct weir_error *error)
{
	struct weir_decision d;
	int status =
	    weir_acquire(throttle->failures, throttle->failures_limit,
	                 (struct weir_key){address->bytes, network_len(address)}, 1, WEIR_NOW, &d);

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
	            (struct weir_key){address->bytes, network_len(address)}, 1, WEIR_NOW, &d);
}
