/* status_page.c: renders /v1/status, what a server runs, as a JSON object. */
#include "server/start/status_page.h"

#include <stdlib.h>

#include "engine/engine.h"
#include "engine/table.h"
#include "proto/fill.h"
#include "redis/redis.h"
#include "rules/model.h"
#include "server/requests/decider.h"

/* Some keys that are recorded as open may be closed by now, so more are looked at than shown. */
#define OPEN_KEYS_VIEWED ((size_t)4 * STATUS_PAGE_OPEN_BREAKERS)

static void add_text_member(struct buffer *out, const char *name, const char *text)
{
	buffer_printf(out, ",\"%s\":", name);
	buffer_add_json_string(out, slice_of(text));
}

static void add_number_member(struct buffer *out, const char *name, uint64_t number)
{
	buffer_printf(out, ",\"%s\":%llu", name, (unsigned long long)number);
}

static void add_listeners(const struct server_status *status, struct buffer *out)
{
	char address[NET_ADDRESS_TEXT_MAX];

	buffer_add_text(out, ",\"listeners\":[");
	for (size_t i = 0; i < status->listener_count; i++) {
		const struct server_status_listener *listener = &status->listeners[i];

		net_address_format(listener->address, address);
		buffer_add_text(out, i > 0 ? ",{\"protocol\":" : "{\"protocol\":");
		buffer_add_json_string(out, slice_of(listener->name));
		add_text_member(out, "address", address);
		buffer_printf(out, ",\"tls\":%s}", listener->uses_tls ? "true" : "false");
	}
	buffer_add(out, "]", 1);
}

static void add_configuration(struct server_status *status, const struct server_config *config,
                              struct buffer *out)
{
	char error[SERVER_STATUS_ERROR_MAX];

	pthread_mutex_lock(&status->mutex);
	memcpy(error, status->reload_error, sizeof error);
	pthread_mutex_unlock(&status->mutex);
	buffer_add_text(out, ",\"configuration\":{\"files\":[");
	for (size_t i = 0; i < status->file_count; i++) {
		buffer_add(out, ",", i > 0);
		buffer_add_json_string(out, slice_of(status->files[i]));
	}
	buffer_add_text(out, "],\"read\":\"");
	timestamp_add_date(out, config->read_ns);
	buffer_add_text(out, "\",\"error\":");
	if (*error)
		buffer_add_json_string(out, slice_of(error));
	else
		buffer_add_text(out, "null");
	buffer_add(out, "}", 1);
}

static void add_store(struct buffer *out, const char *name, const char *kind, const char *address,
                      bool is_reachable)
{
	buffer_add_text(out, "{\"name\":");
	buffer_add_json_string(out, slice_of(name));
	add_text_member(out, "kind", kind);
	add_text_member(out, "address", address);
	buffer_printf(out, ",\"reachable\":%s}", is_reachable ? "true" : "false");
}

/* Adds the server's own table, and each Redis that the running configuration uses. */
static void add_stores(struct decider *decider, struct buffer *out)
{
	const struct worker_shared *shared = decider->shared;
	const char *path = shared->status.table_path;
	const char *kind = *path ? "file" : "memory";

	buffer_add_text(out, ",\"stores\":[");
	add_store(out, kind, kind, path, true);
	for (size_t i = 0; i < store_clients_count(decider->store_clients); i++) {
		const struct store *store = decider->store_clients->by_store[i]->store;
		bool is_used = (decider->config->remote_stores >> i & 1) || store == shared->stores.main;
		struct redis_stats stats;

		if (!is_used)
			continue;
		redis_store_stats(store, &stats);
		buffer_add(out, ",", 1);
		add_store(out, redis_store_name(store), "redis", redis_store_name(store), stats.is_up);
	}
	buffer_add(out, "]", 1);
}

static int by_limit(const void *left, const void *right)
{
	const struct key_phase *a = left, *b = right;

	return (a->limit > b->limit) - (a->limit < b->limit);
}

/* Returns the first of the keys, which are sorted by limit, that belongs to the limit; or `n`. */
static size_t first_of_limit(const struct key_phase *keys, size_t n, uint64_t limit)
{
	size_t begin = 0;

	while (begin < n) {
		size_t middle = begin + (n - begin) / 2;

		if (keys[middle].limit < limit)
			begin = middle + 1;
		else
			n = middle;
	}
	return begin;
}

/* A list of keys of circuit breakers. Sets of phases have a bit for each. */
struct breaker_list {
	const char *member;
	unsigned recorded; /* the phases in which keys may be recorded */
	unsigned shown;    /* their phases now: the time since they were recorded may have ended them */
	bool shows_phase;
};

#define OPEN_PHASES       (1u << BREAKER_OPEN | 1u << BREAKER_FORCED_OPEN)
#define RECOVERING_PHASES (1u << BREAKER_HALF_OPEN | 1u << BREAKER_RAMP)

static const struct breaker_list breaker_lists[] = {
    {"open_breakers", OPEN_PHASES, OPEN_PHASES, false},
    {"recovering_breakers", 1u << BREAKER_OPEN | RECOVERING_PHASES, RECOVERING_PHASES, true},
};

/* Adds a key as an object of the list, unless it has another phase now. Returns whether it did. */
static bool add_breaker(struct decider *decider, const struct weir_limit *limit,
                        const struct key_phase *key, const struct breaker_list *list,
                        struct buffer *out)
{
	struct algo_decision decision;

	engine_view(&decider->context, limit, key->hash, &decision);
	if (!(list->shown >> decision.phase & 1))
		return false;
	buffer_add_text(out, out->data[out->len - 1] == '[' ? "{\"limit\":" : ",{\"limit\":");
	buffer_add_json_string(out, slice_of(limit->name));
	buffer_add_text(out, ",\"key\":\"");
	buffer_add_json(out, (struct slice){key->name, key->len});
	buffer_add_text(out, key->is_truncated ? "…\"" : "\"");
	if (list->shows_phase)
		add_text_member(out, "phase", breaker_phase_text(decision.phase));
	buffer_add(out, "}", 1);
	return true;
}

static int add_breakers(struct decider *decider, const struct breaker_list *list,
                        struct buffer *out)
{
	const struct weir_engine *engine = decider->config->engine;
	struct key_phase *keys = arena_array(&decider->arena, OPEN_KEYS_VIEWED, sizeof *keys);
	size_t n, shown = 0;

	if (!keys)
		return WEIR_ENOMEM;
	n = key_phases_list_in(decider->shared->phases, list->recorded, keys, OPEN_KEYS_VIEWED);
	qsort(keys, n, sizeof *keys, by_limit);
	buffer_printf(out, ",\"%s\":[", list->member);
	for (size_t i = 0; n > 0 && i < engine_limit_count(engine); i++) {
		const struct weir_limit *limit = engine_limit_at(engine, i);
		uint64_t identity = limit->algo.identity;
		size_t at = algo_has_phases(&limit->algo) ? first_of_limit(keys, n, identity) : n;

		for (; at < n && keys[at].limit == identity && shown < STATUS_PAGE_OPEN_BREAKERS; at++)
			shown += add_breaker(decider, limit, &keys[at], list, out);
	}
	buffer_add(out, "]", 1);
	return WEIR_OK;
}

/* Adds keys of breakers that are open, and those that let some requests pass again. */
static int add_breaker_lists(struct decider *decider, struct buffer *out)
{
	int status = WEIR_OK;

	for (size_t i = 0; i < sizeof breaker_lists / sizeof *breaker_lists && status == WEIR_OK; i++)
		status = add_breakers(decider, &breaker_lists[i], out);
	return status;
}

/* Begins the object of a limit in a list that has `shown` objects. */
static void begin_limit(const struct weir_limit *limit, size_t shown, struct buffer *out)
{
	buffer_add_text(out, shown > 0 ? ",{\"limit\":" : "{\"limit\":");
	buffer_add_json_string(out, slice_of(limit->name));
}

/* Adds the shares that operators have set. Returns how many. */
static size_t add_set_shares(struct decider *decider, struct buffer *out)
{
	const struct weir_engine *engine = decider->config->engine;
	char share[DECIMAL_TEXT_MAX];
	struct override override;
	size_t shown = 0;

	for (size_t i = 0; i < engine_limit_count(engine) && shown < STATUS_PAGE_SWITCHED; i++) {
		const struct weir_limit *limit = engine_limit_at(engine, i);

		if (!limit->algo.algorithm->set_share ||
		    !overrides_find(&decider->shared->overrides, limit->name, &override))
			continue;
		format_decimal(share, override.deny);
		begin_limit(limit, shown++, out);
		buffer_printf(out, ",\"deny\":%s,", share);
		overrides_add_members(&override, out);
		buffer_add(out, "}", 1);
	}
	return shown;
}

/* Adds what operators have changed at run time: shares of limits, then phases of keys. */
static int add_switched(struct decider *decider, struct buffer *out)
{
	struct forced_key_copy *keys = arena_array(&decider->arena, STATUS_PAGE_SWITCHED, sizeof *keys);
	size_t n, shown;

	if (!keys)
		return WEIR_ENOMEM;
	buffer_add_text(out, ",\"switched\":[");
	shown = add_set_shares(decider, out);
	n = forced_keys_list_all(&decider->shared->forced, keys, STATUS_PAGE_SWITCHED - shown);
	for (size_t i = 0; i < n; i++) {
		const struct weir_limit *limit =
		    engine_find_limit(decider->config->engine, keys[i].key.limit);
		char name[KEY_PHASES_TEXT_MAX];

		if (!limit) /* a reload has removed it just now */
			continue;
		begin_limit(limit, shown++, out);
		add_text_member(out, "key", key_phases_text(&keys[i].key, name));
		add_text_member(out, "state", fill_force_text(keys[i].override.force).data);
		buffer_add(out, ",", 1);
		overrides_add_members(&keys[i].override, out);
		buffer_add(out, "}", 1);
	}
	buffer_add(out, "]", 1);
	return WEIR_OK;
}

/* The keys at a Redis are not counted: counting them would read all of its memory. */
static void add_usage(struct decider *decider, struct buffer *out)
{
	struct worker_shared *shared = decider->shared;
	const struct weir_config *rules = decider->config->rules;
	struct weir_table_stats table;

	weir_table_stats(shared->table, decider->context.at.now_ns, &table);
	add_number_member(out, "limits", rules->limit_count);
	add_number_member(out, "rules", rules->rule_count);
	if (shared->stores.main) {
		buffer_add_text(out, ",\"keys\":null,\"keys_sample_weight\":null");
	} else {
		add_number_member(out, "keys", table.live);
		add_number_member(out, "keys_sample_weight", table.sample_weight);
	}
	add_number_member(out, "capacity", table.capacity);
	add_number_member(
	    out, "connections",
	    atomic_load_explicit(&shared->conn_limit.open_count, memory_order_relaxed) +
	        atomic_load_explicit(&shared->conn_limit.reserve_count, memory_order_relaxed));
	add_number_member(
	    out, "waiting",
	    metrics_loop_sum(shared->metrics, offsetof(struct metrics_loop, pending_answers)));
	add_number_member(out, "memory_bytes", os_usage().resident_bytes);
}

static void add_denials(const struct worker_shared *shared, struct buffer *out)
{
	uint64_t oldest_ns = 0;
	uint64_t kept = shared->denials ? denial_sample_count(shared->denials, &oldest_ns) : 0;

	buffer_printf(
	    out, ",\"denials\":{\"kept\":%llu,\"left_out\":%llu,\"oldest\":", (unsigned long long)kept,
	    (unsigned long long)metrics_loop_sum(shared->metrics,
	                                         offsetof(struct metrics_loop, denials_left_out)));
	if (kept > 0) {
		buffer_add(out, "\"", 1);
		timestamp_add_date(out, oldest_ns);
		buffer_add(out, "\"", 1);
	} else {
		buffer_add_text(out, "null");
	}
	add_number_member(out, "keep", denial_sample_capacity(shared->denials));
	buffer_add(out, "}", 1);
}

int status_page_render(struct decider *decider, struct buffer *out)
{
	struct worker_shared *shared = decider->shared;
	struct server_status *status = &shared->status;
	uint64_t running_ns = sat_sub(os_monotonic_ns(), status->started_monotonic_ns);
	bool is_stopping = atomic_load_explicit(&shared->stopping, memory_order_relaxed);

	buffer_add_text(out, "{\"version\":");
	buffer_add_json_string(out, slice_of(weir_version()));
	add_number_member(out, "uptime_s", running_ns / NS_PER_S);
	buffer_add_text(out, ",\"started\":\"");
	timestamp_add_date(out, status->started_ns);
	buffer_printf(out, "\",\"ready\":%s", is_stopping ? "false" : "true");
	add_listeners(status, out);
	add_configuration(status, decider->config, out);
	add_stores(decider, out);
	add_usage(decider, out);
	if (add_breaker_lists(decider, out) != WEIR_OK || add_switched(decider, out) != WEIR_OK)
		return WEIR_ENOMEM;
	add_denials(shared, out);
	buffer_add(out, "}", 1);
	return WEIR_OK;
}
