/*
 * library.c: implements the public functions of libweir_redis (weir/redis.h) by a pool of store
 * clients.
 */
#include <weir/redis.h>

#include "base/error.h"
#include "base/number.h"
#include "redis/client_pool.h"

#define PREFIX_DEFAULT        "weir:"
#define TIMEOUT_DEFAULT_NS    (20 * NS_PER_MS)
#define TIMEOUT_MIN_NS        NS_PER_MS
#define TIMEOUT_MAX_NS        (60 * NS_PER_S)
#define DENIED_DEFAULT_NS     NS_PER_S
#define DENIED_MAX_NS         (60 * NS_PER_S)
#define PREFIX_MAX            64
#define NODES_MAX             65536

/* An option of 0 means its default; WEIR_ZERO stands for a real 0. */
static uint64_t or_default(uint64_t value, uint64_t otherwise)
{
	return value == WEIR_ZERO ? 0 : value != 0 ? value : otherwise;
}

static int check_redis_options(const struct weir_redis_options *options, struct redis_options *out,
                               struct weir_error *error)
{
	*out = (struct redis_options){
	    .url = options->url,
	    .prefix = options->prefix ? options->prefix : PREFIX_DEFAULT,
	    .timeout_ns = options->timeout_ns ? options->timeout_ns : TIMEOUT_DEFAULT_NS,
	    .denied_cache_ns = or_default(options->denied_cache_ns, DENIED_DEFAULT_NS),
	};
	if (error_check_reserved(error, options->reserved) != WEIR_OK)
		return WEIR_EINVAL;
	if (!options->url)
		return error_set(error, WEIR_EINVAL, "url: expected the URL of a Redis, found none");
	if (strlen(out->prefix) > PREFIX_MAX)
		return error_set(error, WEIR_ERANGE, "prefix: expected %d bytes at most, found %zu", PREFIX_MAX,
		                 strlen(out->prefix));
	if (strpbrk(out->prefix, "{}"))
		return error_set(error, WEIR_EINVAL,
		                 "prefix: expected no { and }, which say where in a cluster a key lies, found \"%s\"",
		                 out->prefix);
	if (options->nodes > NODES_MAX)
		return error_set(error, WEIR_ERANGE, "nodes: expected %d at most, found %ju", NODES_MAX,
		                 (uintmax_t)options->nodes);
	if (out->timeout_ns < TIMEOUT_MIN_NS || out->timeout_ns > TIMEOUT_MAX_NS)
		return error_set(error, WEIR_ERANGE, "timeout_ns: expected 1 ms to a minute, found %ju ns",
		                 (uintmax_t)out->timeout_ns);
	if (out->denied_cache_ns > DENIED_MAX_NS)
		return error_set(error, WEIR_ERANGE, "denied_cache_ns: expected a minute at most, found %ju ns",
		                 (uintmax_t)out->denied_cache_ns);
	return WEIR_OK;
}

/*
 * Opens a table in memory, and a pool of store clients, at which the table counts its limits as
 * long as Redis is available. The quota of a limit that is counted in memory is divided by
 * `options->nodes`.
 */
int weir_redis_open(const struct weir_redis_options *options, weir_table **out,
                    struct weir_error *error)
{
	const struct weir_table_options memory = {.capacity = options->capacity};
	struct redis_options checked;
	struct store_caller *caller;
	int status = check_redis_options(options, &checked, error);

	*out = NULL;
	if (status == WEIR_OK)
		status = weir_table_open(&memory, out, error);
	if (status != WEIR_OK)
		return status;
	status = pool_open(&checked, &caller, error);
	if (status == WEIR_OK) {
		status = weir_private_table_call(*out, caller, options->nodes); /* has it use the pool */
		if (status != WEIR_OK) {
			caller->close(caller);
			error_set(error, status, "out of memory");
		}
	}
	if (status != WEIR_OK) {
		weir_table_close(*out);
		*out = NULL;
	}
	return status;
}

int weir_redis_failure(const weir_table *table, struct weir_error *failure)
{
	const struct store_caller *caller = weir_private_table_caller(table);
	char why[REDIS_FAILURE_MAX];

	*failure = (struct weir_error){0};
	if (!caller)
		return WEIR_EINVAL;
	redis_store_failure(caller->store, why);
	if (why[0] != '\0')
		error_set(failure, WEIR_ESTORE, "%s", why);
	return WEIR_OK;
}

int weir_redis_stats(const weir_table *table, struct weir_redis_stats *stats)
{
	const struct store_caller *caller = weir_private_table_caller(table);
	struct redis_stats now;

	*stats = (struct weir_redis_stats){0};
	if (!caller)
		return WEIR_EINVAL;
	redis_store_stats(caller->store, &now);
	*stats = (struct weir_redis_stats){
	    .up = now.is_up,
	    .calls = now.calls,
	    .steps = now.steps,
	    .failed = now.failed,
	    .timeouts = now.timeouts,
	    .switches = now.switches,
	    .denied = now.denied,
	};
	return WEIR_OK;
}
