#include "server/access/logins.h"

#include "base/error.h"
#include "base/number.h"
#include "base/os/os.h"

/* Failures of one address: so many at once, and as many again each minute. */
#define FAILURES       10
#define FAILURES_NAMES 65536 /* addresses that are remembered */

#define IPV6_NETWORK 8 /* bytes */

int logins_open(struct logins *logins)
{
	const struct weir_pool_options pool = {.workers = 1, .bucket = LOGINS_WAITING};
	const struct weir_table_options table = {.capacity = FAILURES_NAMES};
	const struct weir_limit_options limit = {.name = "logins",
	                                         .rate = {FAILURES, 1, WEIR_UNIT_MINUTE}};
	int status;

	if (logins->pool)
		return WEIR_OK;
	status = weir_table_open(&table, &logins->failures, NULL);
	if (status == WEIR_OK)
		status = weir_limit_open(&limit, &logins->failures_limit, NULL);
	if (status == WEIR_OK)
		status = weir_pool_open(&pool, &logins->pool, NULL);
	if (status != WEIR_OK)
		logins_close(logins);
	return status;
}

void logins_close(struct logins *logins)
{
	atomic_store_explicit(&logins->closing, true, memory_order_relaxed);
	if (logins->pool)
		weir_pool_close(logins->pool);
	if (logins->failures)
		weir_table_close(logins->failures);
	if (logins->failures_limit)
		weir_limit_close(logins->failures_limit);
	*logins = (struct logins){0};
}

static size_t network_len(const struct ip *address)
{
	return ip_is_v4(address) ? sizeof address->bytes : IPV6_NETWORK;
}

bool logins_charge(struct logins *logins, const struct ip *address, struct weir_error *error)
{
	struct weir_decision d;
	int status =
	    weir_acquire(logins->failures, logins->failures_limit,
	                 (struct weir_key){address->bytes, network_len(address)}, 1, WEIR_NOW, &d);

	if (status == WEIR_OK && d.allowed)
		return true;
	error_set(error, WEIR_EAUTH, "too many wrong logins from this address: try again in %llu s",
	          status == WEIR_OK ? (unsigned long long)ceil_div(d.retry_after_ns, NS_PER_S) : 1);
	return false;
}

void logins_give_back(struct logins *logins, const struct ip *address)
{
	struct weir_decision d;

	weir_refund(logins->failures, logins->failures_limit,
	            (struct weir_key){address->bytes, network_len(address)}, 1, WEIR_NOW, &d);
}
