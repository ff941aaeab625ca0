/*
 * limit.c: opens limits from their options, and makes two variants of limits. A *local limit*
 * counts one server's share of the quota while the servers' common store is unavailable. The
 * parameters of an *ad-hoc limit* come with the command (CL.THROTTLE).
 *
 * A limit's identity is a hash, and part of the hash of each key: limits of one identity share the
 * counts of their keys.
 */
#include "engine/limit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "algo/algorithm.h"
#include "base/cell.h"
#include "base/prng.h"
#include "base/error.h"
#include "base/hash.h"
#include "base/number.h"

#define NAME_MAX_BYTES 64
#define NAME_DEFAULT   "default"

/*
 * Fixed, so that every process and every run finds the same counts. The hash of a key adds the
 * table's secret.
 */
static const struct hash_key identity_key = {UINT64_C(0x7765697220696465),
                                             UINT64_C(0x6e74697479203031)};

/*
 * A limit that keeps its name, algorithm and period keeps its counts; `count` and `burst` may
 * change. For calendar windows the zone and the day on which weeks start are part of the period.
 */
static uint64_t identity_of(const char *name, const struct weir_limit_options *options,
                            const struct algo_limit *algo)
{
	char text[320];
	uint64_t period = options->rate.period ? options->rate.period : 1;
	int len;

	if (algo_has_calendar(algo))
		len = snprintf(text, sizeof text, "%s\n%d\n%llu %d\n%s\n%d", name, (int)options->algorithm,
		               (unsigned long long)period, (int)options->rate.unit,
		               options->timezone ? options->timezone : "UTC", (int)options->week_start);
	else
		len = snprintf(text, sizeof text, "%s\n%d\n%llu", name, (int)options->algorithm,
		               (unsigned long long)algo->period_ns);
	return hash_bytes(&identity_key, text, (size_t)len);
}

/* Checks the reserved fields, also of the options of one algorithm, which may be NULL. */
static int check_reserved(const struct weir_limit_options *options, struct weir_error *error)
{
#define CHECK(own) ((own) ? error_check_reserved(error, (own)->reserved) : WEIR_OK)
	return CHECK(options) ?: CHECK(options->breaker) ?: CHECK(options->throttle) ?:
	                                                    CHECK(options->adaptive);
#undef CHECK
}

int limit_init(struct weir_limit *limit, const struct weir_limit_options *options,
               struct weir_error *error)
{
	const char *name = options->name ? options->name : NAME_DEFAULT;
	int status;

	*limit = (struct weir_limit){0};
	if (check_reserved(options, error) != WEIR_OK)
		return WEIR_EINVAL;
	if (*name == '\0' || strlen(name) > NAME_MAX_BYTES)
		return error_set(error, WEIR_EINVAL, "name: expected 1 to %d bytes, found %zu",
		                 NAME_MAX_BYTES, strlen(name));
	status = algo_limit_init(&limit->algo, options, error);
	if (status != WEIR_OK)
		return status;
	limit->name = strdup(name);
	if (!limit->name) {
		algo_limit_free(&limit->algo);
		return error_set(error, WEIR_ENOMEM, "out of memory");
	}
	limit->algo.identity = identity_of(name, options, &limit->algo);
	return WEIR_OK;
}

/*
 * Whether the limit could ever grant the cost, on an unused key and after the longest wait.
 * `earlier`: what other rules charge the key for the same request before. A limit that pays later
 * needs no capacity for both at once, but the second charge then waits for the first.
 */
bool limit_could_grant(const struct weir_limit *limit, enum algo_op op, uint64_t cost,
                       uint64_t earlier, uint64_t max_wait_ns)
{
	const struct algo_limit *algo = &limit->algo;
	uint64_t units = u64_max(cost, 1); /* a cost of 0 asks whether 1 would pass */
	uint64_t at_once = algo->algorithm->pays_later ? units : sat_add(units, earlier);
	uint64_t patience_ns = max_wait_ns;

	if (!algo_op_requests(op))
		return true;
	if (max_wait_ns == WEIR_ZERO) /* no wait */
		patience_ns = 0;
	else if (max_wait_ns == 0) /* as long as the limit itself allows */
		patience_ns = ALGO_NEVER - 1;
	return at_once <= algo->quota && algo_least_wait_ns(algo, units, earlier) <= patience_ns;
}

/* One of `nodes` servers gets a share of each count, one unit at least. */
static uint64_t share_of(uint64_t value, uint64_t nodes)
{
	return u64_max(1, value / nodes);
}

/*
 * Returns the period in which one of `nodes` servers grants one unit, so that all grant `count` in
 * `period`: period * nodes / count, at most `max_period`.
 */
static uint64_t period_of_one(uint64_t period, uint64_t count, uint64_t nodes, uint64_t max_period)
{
	u128 longer = ((u128)period * nodes + count - 1) / count;

	return longer < max_period ? (uint64_t)longer : max_period;
}

/* A count below `nodes` has no share in whole units, so its period is lengthened. */
static void share_rate(struct weir_rate *rate, const struct weir_limit *origin, uint64_t nodes)
{
	if (rate->count >= nodes)
		rate->count /= nodes;
	else if (rate->count > 0)
		*rate = (struct weir_rate){
		    1, period_of_one(origin->algo.period_ns, rate->count, nodes, ALGO_PERIOD_MAX_NS),
		    WEIR_UNIT_NANOSECOND};
}

/*
 * Divides the counts of `own` by `nodes`. Times are not divided, but a period may get longer. If no
 * burst is set, the default of the whole rate is divided.
 */
static void share_options(struct weir_limit_options *own, const struct weir_limit *origin,
                          uint64_t nodes)
{
	struct weir_limit_options with_defaults = *own;
	union algo_own memory; /* for defaults of one algorithm */

	algorithm_resolve(&with_defaults, &memory);
	if (with_defaults.burst > 0)
		own->burst = share_of(with_defaults.burst, nodes);
	if (own->max > 0)
		own->max = share_of(own->max, nodes);
	/* The last unit of a day's base opens a window of the rate, whose share has it already. */
	if (own->base > 0)
		own->base = 1 + (own->base - 1) / nodes;
	share_rate(&own->rate, origin, nodes);
	if (origin->algo.algorithm->divide)
		origin->algo.algorithm->divide(own, &with_defaults, nodes);
}

/*
 * Makes `limit` the local limit of `origin`. Its identity differs from that of `origin`, and from
 * that of a local limit with another period, so that their counts stay apart.
 */
static void set_local_identity(struct weir_limit *limit, const struct weir_limit *origin,
                               struct store *store)
{
	char suffix[32] = "local";
	size_t len = sizeof "local";

	if (limit->algo.period_ns != origin->algo.period_ns && !limit->algo.is_adhoc)
		len = (size_t)snprintf(suffix, sizeof suffix, "local %llu",
		                       (unsigned long long)limit->algo.period_ns);
	limit->algo.identity = hash_salted(&identity_key, origin->algo.identity, suffix, len);
	limit->store = store;
	limit->origin = origin;
}

int limit_init_local(struct weir_limit *limit, const struct weir_limit *origin,
                     const struct weir_limit_options *options, uint64_t nodes, struct store *store,
                     struct weir_error *error)
{
	struct weir_limit_options own = *options;
	int status;

	nodes = u64_max(1, nodes);
	share_options(&own, origin, nodes);
	status = limit_init(limit, &own, error);
	if (status == WEIR_OK) {
		set_local_identity(limit, origin, store);
	} else if (error) {
		struct weir_error cause = *error;

		error_set(error, status, "limit for one of %llu nodes: %s", (unsigned long long)nodes,
		          cause.message);
	}
	return status;
}

void limit_free(struct weir_limit *limit)
{
	algo_limit_free(&limit->algo);
	free((char *)limit->name);
}

int limit_init_by_fields(struct weir_limit *limit, const struct weir_limit_options *options,
                         struct weir_error *error)
{
	int status = limit_init(limit, options, error);

	if (status != WEIR_OK && error)
		algorithm_name_field(options, error);
	return status;
}

int weir_limit_open(const struct weir_limit_options *options, weir_limit **out,
                    struct weir_error *error)
{
	struct weir_limit *limit = malloc(sizeof *limit);
	int status = limit ? limit_init_by_fields(limit, options, error)
	                   : error_set(error, WEIR_ENOMEM, "out of memory");

	if (status != WEIR_OK) {
		free(limit);
		limit = NULL;
	}
	*out = limit;
	return status;
}

void weir_limit_close(weir_limit *limit)
{
	if (!limit)
		return;
	limit_free(limit);
	free(limit);
}

const char *weir_limit_name(const weir_limit *limit)
{
	return limit->name;
}

int weir_limit_shed(const weir_limit *limit, double deny)
{
	return algo_shed(&limit->algo, deny);
}

void weir_seed(uint64_t seed)
{
	prng_seed(seed);
}

/* Decides by a limit that denies a random share of requests: it has no states. */
void limit_draw(const struct weir_limit *limit, struct algo_call *call, struct moment at,
                struct weir_decision *decision)
{
	const struct algo_limit *algo = algo_current(&limit->algo);
	struct algo_time time = {at.now_ns, 0};
	struct algo_state no_state = {0};
	struct algo_decision outcome;

	if (algo_makes_draw(call))
		call->draw = prng_next();
	algo_step(algo, call, &time, &no_state, &outcome);
	limit_fill_decision(limit, algo, &outcome, decision);
}

/* As limit_init_local, for an ad-hoc limit. */
int limit_init_adhoc_local(struct weir_limit *limit, const struct weir_limit *origin,
                           uint64_t nodes, struct store *store)
{
	uint64_t count = origin->algo.bucket.count, period_s = origin->algo.period_ns / NS_PER_S;
	int status;

	nodes = u64_max(1, nodes);
	if (count < nodes)
		period_s = period_of_one(period_s, count, nodes, ALGO_PERIOD_MAX_NS / NS_PER_S);
	status = limit_init_adhoc(limit, share_of(origin->algo.quota, nodes), share_of(count, nodes),
	                          period_s, NULL);
	set_local_identity(limit, origin, store);
	return status;
}

/* All ad-hoc limits share one identity, so a key keeps its count if the parameters change. */
bool limit_is_adhoc(const struct weir_limit *limit)
{
	return limit->algo.identity == identity_key.k0;
}

/*
 * Makes a token bucket of the parameters of a CL.THROTTLE command, without allocating: do not pass
 * it to limit_free. Its states may have been written by any parameters, so one counts as an error
 * of a clock (farthest_ns) only if no limit could have written it.
 */
int limit_init_adhoc(struct weir_limit *limit, uint64_t burst, uint64_t count, uint64_t period_s,
                     struct weir_error *error)
{
	struct weir_limit_options options = {
	    .rate = {.count = count, .period = period_s, .unit = WEIR_UNIT_SECOND},
	    .burst = burst,
	};
	int status;

	if (burst < 1 || count < 1 || period_s < 1)
		return error_set(error, WEIR_EINVAL, "expected burst, count and period of at least 1");
	*limit = (struct weir_limit){.name = "CL.THROTTLE"}; /* in decisions; nobody looks it up */
	status = algo_limit_init(&limit->algo, &options, error);
	limit->algo.identity = identity_key.k0;
	limit->algo.is_adhoc = true;
	limit->algo.generation = CELL_ADHOC;
	limit->algo.farthest_ns = ALGO_HORIZON_NS + ALGO_SKEW_NS;
	return status;
}
