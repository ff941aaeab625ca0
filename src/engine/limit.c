/* limit.c: opens named limits, their identities, and local limits with a share of the quota. */
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
#define NAME_DEFAULT "default"

/*
 * Fixed, so that every process and every run finds the same counts; the
 * table's secret comes on top when a key is hashed.
 */
static const struct hash_key identity_key = {UINT64_C(0x7765697220696465), UINT64_C(0x6e74697479203031)};

/*
 * A limit that keeps its name, algorithm and period keeps its counts; `count`
 * and `burst` may change. For calendar windows the zone and the day on which
 * weeks start are part of the period.
 */
static uint64_t identity_of(const char *name, const struct weir_limit_options *options,
                            const struct algo_limit *algo)
{
	char text[320];
	bool aligned = algo->cache != NULL;
	uint64_t period = options->rate.period ? options->rate.period : 1;
	int len;

	if (aligned)
		len = snprintf(text, sizeof text, "%s\n%d\n%llu %d\n%s\n%d", name, (int)options->algorithm,
		               (unsigned long long)period, (int)options->rate.unit,
		               options->timezone ? options->timezone : "UTC", (int)options->week_start);
	else
		len = snprintf(text, sizeof text, "%s\n%d\n%llu", name, (int)options->algorithm,
		               (unsigned long long)algo->period_ns);
	return hash_bytes(&identity_key, text, (size_t)len);
}

static bool any(const uint64_t reserved[4])
{
	return reserved[0] || reserved[1] || reserved[2] || reserved[3];
}

/* Whether the options of one algorithm, which may be NULL, have a reserved field set. */
#define OWN_RESERVED(own) ((own) && any((own)->reserved))

static bool has_reserved(const struct weir_limit_options *options)
{
	return any(options->reserved) || OWN_RESERVED(options->breaker) ||
	       OWN_RESERVED(options->throttle) || OWN_RESERVED(options->adaptive);
}

int limit_init(struct weir_limit *limit, const struct weir_limit_options *options,
               struct weir_error *error)
{
	const char *name = options->name ? options->name : NAME_DEFAULT;
	int status;

	*limit = (struct weir_limit){0};
	if (has_reserved(options))
		return error_set(error, WEIR_EINVAL, "options: reserved fields must be zero");
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

bool limit_could_grant(const struct weir_limit *limit, enum algo_op op, uint64_t cost,
                       uint64_t earlier, uint64_t max_wait_ns)
{
	const struct algo_limit *algo = &limit->algo;
	uint64_t units = u64_max(cost, 1); /* a cost of 0 asks whether 1 would pass */
	uint64_t together = algo->algorithm->pays_later ? units : sat_add(units, earlier);
	uint64_t wait_ns = max_wait_ns == WEIR_ZERO ? 0
	                   : max_wait_ns == 0       ? ALGO_NEVER - 1
	                                            : max_wait_ns;

	if (!algo_op_requests(op))
		return true;
	return together <= algo->quota && algo_least_wait_ns(algo, units, earlier) <= wait_ns;
}

/* Shares for one of `nodes` servers */

static uint64_t share(uint64_t value, uint64_t nodes)
{
	return u64_max(1, value / nodes);
}

/* In which one of `nodes` servers grants one unit, where all together grant `count` a period. */
static uint64_t lengthened(uint64_t period, uint64_t count, uint64_t nodes, uint64_t most)
{
	u128 longer = ((u128)period * nodes + count - 1) / count;

	return longer < most ? (uint64_t)longer : most;
}

/* A count below `nodes` has no share in whole units, so its period is lengthened. */
static void share_rate(struct weir_rate *rate, const struct weir_limit *origin, uint64_t nodes)
{
	if (rate->count >= nodes)
		rate->count /= nodes;
	else if (rate->count > 0)
		*rate = (struct weir_rate){
		    1, lengthened(origin->algo.period_ns, rate->count, nodes, ALGO_PERIOD_MAX_NS),
		    WEIR_UNIT_NANOSECOND};
}

/* Each server has one unit at least. Times are not divided, except the period of the rate. */
static void share_options(struct weir_limit_options *own, const struct weir_limit *origin,
                          uint64_t nodes)
{
	struct weir_limit_options whole = *own;
	union algo_own own_options;

	algorithm_resolve(&whole, &own_options);
	if (whole.burst > 0)
		own->burst = share(whole.burst, nodes);
	if (own->max > 0)
		own->max = share(own->max, nodes);
	if (own->base > 0) /* the first of them counts in the rate, too */
		own->base = 1 + (own->base - 1) / nodes;
	share_rate(&own->rate, origin, nodes);
	if (origin->algo.algorithm->divide)
		origin->algo.algorithm->divide(own, &whole, nodes);
}

/* Keeps its counts apart from those of `origin`, and from those of a period of another length. */
static void make_local(struct weir_limit *limit, const struct weir_limit *origin,
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
                     const struct weir_limit_options *options, uint64_t nodes,
                     struct store *store, struct weir_error *error)
{
	struct weir_limit_options own = *options;
	int status;

	nodes = u64_max(1, nodes);
	share_options(&own, origin, nodes);
	status = limit_init(limit, &own, error);
	if (status == WEIR_OK) {
		make_local(limit, origin, store);
	} else if (error) {
		struct weir_error why = *error;

		error_set(error, status, "limit for one of %llu nodes: %s", (unsigned long long)nodes,
		          why.message);
	}
	return status;
}

void limit_free(struct weir_limit *limit)
{
	algo_limit_free(&limit->algo);
	free((char *)limit->name);
}

int weir_limit_open(const struct weir_limit_options *options, weir_limit **out,
                    struct weir_error *error)
{
	struct weir_limit *limit = malloc(sizeof *limit);
	int status = limit ? limit_init(limit, options, error)
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

void limit_draw(const struct weir_limit *limit, struct algo_call *call, struct moment at,
                struct weir_decision *decision)
{
	const struct algo_limit *algo = algo_current(&limit->algo);
	struct algo_time time = {at.now_ns, 0};
	struct algo_state none = {0};
	struct algo_decision outcome;

	if (algo_consumes(call))
		call->draw = prng_next();
	algo_step(algo, call, &time, &none, &outcome);
	limit_fill_decision(limit, algo, &outcome, decision);
}

int limit_init_adhoc_local(struct weir_limit *limit, const struct weir_limit *origin,
                           uint64_t nodes, struct store *store)
{
	uint64_t count = origin->algo.bucket.count, period_s = origin->algo.period_ns / NS_PER_S;
	int status;

	nodes = u64_max(1, nodes);
	if (count < nodes)
		period_s = lengthened(period_s, count, nodes, ALGO_PERIOD_MAX_NS / NS_PER_S);
	status = limit_init_adhoc(limit, share(origin->algo.quota, nodes), share(count, nodes),
	                          period_s, NULL);
	make_local(limit, origin, store);
	return status;
}

bool limit_is_adhoc(const struct weir_limit *limit)
{
	return limit->algo.identity == identity_key.k0;
}

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
	*limit = (struct weir_limit){.name = "CL.THROTTLE"}; /* which no other limit can have */
	status = algo_limit_init(&limit->algo, &options, error);
	limit->algo.identity = identity_key.k0;
	limit->algo.is_adhoc = true;
	limit->algo.generation = CELL_ADHOC;
	limit->algo.farthest_ns =
	    ALGO_HORIZON_NS + ALGO_SKEW_NS; /* any parameters may have written a state */
	return status;
}
