/* limit.c: a named limit, and what of it a count belongs to. */
#include "engine/limit.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/draw.h"
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

int limit_init(struct weir_limit *limit, const struct weir_limit_options *options,
               struct weir_error *error)
{
	const char *name = options->name ? options->name : NAME_DEFAULT;
	int status;

	*limit = (struct weir_limit){0};
	for (size_t i = 0; options->health && i < sizeof options->health->reserved / sizeof(uint64_t); i++)
		if (options->health->reserved[i])
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

/* A server's share of something of which there is one at least; 0 stands for a default. */
static void share(uint64_t *value, uint64_t nodes)
{
	if (*value > 0)
		*value = u64_max(1, *value / nodes);
}

/* Keeps its counts apart from those of `origin`. */
static void stand_in(struct weir_limit *limit, const struct weir_limit *origin, struct store *store)
{
	static const char suffix[] = "local";

	limit->algo.identity = hash_salted(&identity_key, origin->algo.identity, suffix, sizeof suffix);
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
	share(&own.rate.count, nodes);
	share(&own.burst, nodes);
	share(&own.base, nodes);
	share(&own.max, nodes);
	status = limit_init(limit, &own, error);
	if (status == WEIR_OK) {
		stand_in(limit, origin, store);
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
	draw_seed(seed);
}

void limit_draw(const struct weir_limit *limit, struct algo_call *call, struct moment at,
                struct weir_decision *d)
{
	const struct algo_limit *algo = algo_current(&limit->algo);
	struct algo_time time = {at.now_ns, 0};
	struct algo_state none = {0};
	struct algo_outcome outcome;

	if (call->op == ALGO_ACQUIRE && call->cost > 0)
		call->draw = draw_next();
	algo_step(algo, call, &time, &none, &outcome);
	limit_explain(limit, algo, &outcome, d);
}

int limit_adhoc_local(struct weir_limit *limit, const struct weir_limit *origin, uint64_t nodes,
                      struct store *store)
{
	uint64_t burst = origin->algo.quota, count = origin->algo.bucket.count;
	int status;

	nodes = u64_max(1, nodes);
	share(&burst, nodes);
	share(&count, nodes);
	status = engine_adhoc_limit(limit, burst, count, origin->algo.period_ns / NS_PER_S, NULL);
	stand_in(limit, origin, store);
	return status;
}

bool engine_is_adhoc(const struct weir_limit *limit)
{
	return limit->algo.identity == identity_key.k0;
}

int engine_adhoc_limit(struct weir_limit *limit, uint64_t burst, uint64_t count, uint64_t period_s,
                       struct weir_error *error)
{
	struct weir_limit_options options = {
	    .rate = {.count = count, .period = period_s, .unit = WEIR_SECOND},
	    .burst = burst,
	};
	int status;

	if (burst < 1 || count < 1 || period_s < 1)
		return error_set(error, WEIR_EINVAL, "expected burst, count and period of at least 1");
	*limit = (struct weir_limit){.name = "CL.THROTTLE"}; /* which no other limit can have */
	status = algo_limit_init(&limit->algo, &options, error);
	limit->algo.identity = identity_key.k0;
	limit->algo.is_adhoc = true;
	return status;
}
