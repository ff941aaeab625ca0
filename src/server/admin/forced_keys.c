/*
 * forced_keys.c: records which keys an operator has forced into a phase of their circuit breaker,
 * the operator, and until when. The table holds the phase itself.
 */
#include "server/admin/forced_keys.h"

#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

#include "engine/engine.h"
#include "proto/fill.h"

struct forced_key {
	struct list_node node;
	struct override override;
	struct key_phase key;
	char *limit; /* the limit's name */
};

void forced_keys_open(struct forced_keys *forced, struct overrides *overrides)
{
	pthread_mutexattr_t recursive;

	*forced = (struct forced_keys){.overrides = overrides};
	pthread_mutexattr_init(&recursive);
	pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE);
	pthread_mutex_init(&forced->mutex, &recursive);
	pthread_mutexattr_destroy(&recursive);
}

void forced_keys_lock(struct forced_keys *forced)
{
	pthread_mutex_lock(&forced->mutex);
}

void forced_keys_unlock(struct forced_keys *forced)
{
	pthread_mutex_unlock(&forced->mutex);
}

static struct forced_key *find_forced_key(const struct forced_keys *forced, uint64_t hash)
{
	LIST_EACH (&forced->items, struct forced_key, node, item)
		if (item->key.hash == hash)
			return item;
	return NULL;
}

static void remove_forced_key(struct forced_keys *forced, struct forced_key *item)
{
	list_remove(&forced->items, &item->node);
	forced->count--;
	free(item->limit);
	free(item);
}

void forced_keys_close(struct forced_keys *forced)
{
	LIST_EACH (&forced->items, struct forced_key, node, item)
		remove_forced_key(forced, item);
	pthread_mutex_destroy(&forced->mutex);
}

/* Finds or adds the record of a key; a new one has no override yet. EFULL if there are too many. */
static int find_or_add_forced_key(struct forced_keys *forced, const weir_limit *limit,
                                  const struct key_phase *key, struct forced_key **out)
{
	struct forced_key *item = find_forced_key(forced, key->hash);

	*out = item;
	if (item)
		return WEIR_OK;
	if (forced->count == FORCED_KEYS_MAX)
		return WEIR_EFULL;
	item = calloc(1, sizeof *item);
	if (item)
		item->limit = strdup(weir_limit_name(limit));
	if (!item || !item->limit) {
		free(item);
		return WEIR_ENOMEM;
	}
	item->key = *key;
	list_insert(&forced->items, &item->node, forced->items.first);
	*out = item;
	forced->count++;
	return WEIR_OK;
}

/* The end by the table's clock, which may differ from the wall clock; 0 if there is no end. */
static uint64_t end_by_table_clock(const struct decision_context *context,
                                   const struct override *override)
{
	if (override->until_ns == 0)
		return 0;
	return sat_add(context->at.now_ns, sat_sub(override->until_ns, override->at_ns));
}

/*
 * Forces the key in the table and records it, or ends its force and removes its record. If the
 * table refuses, an earlier record stays as it was.
 */
static int force_key(struct forced_keys *forced, const struct decision_context *context,
                     const weir_limit *limit, struct slice name, const struct key_phase *key,
                     const struct override *override)
{
	struct forced_key *item = find_forced_key(forced, key->hash);
	enum weir_force force = (enum weir_force) override->force;
	bool ends_force = force == WEIR_FORCE_AUTO;
	uint64_t until_ns;
	bool is_new = !item, record_is_unneeded;
	int status = WEIR_OK;

	if (!ends_force)
		status = find_or_add_forced_key(forced, limit, key, &item);
	if (status != WEIR_OK)
		return status;
	until_ns = end_by_table_clock(context, override);
	if (name.data)
		status = engine_force(context, limit, name, force, until_ns);
	else
		status = engine_force_hash(context, limit, key->hash, force, until_ns);
	record_is_unneeded = status == WEIR_OK ? ends_force : is_new;
	if (item && record_is_unneeded)
		remove_forced_key(forced, item);
	else if (status == WEIR_OK && !ends_force)
		item->override = *override;
	return status;
}

static void log_force(struct log *log, const char *limit, const struct key_phase *key,
                      const struct override *override)
{
	char name[KEY_PHASES_TEXT_MAX];
	const struct log_field what[] = {{"limit", limit, 0},
	                                 {"key", key_phases_text(key, name), 0},
	                                 {"state", fill_force_text(override->force).data, 0}};

	overrides_log(log, "breaker_forced", what, 3, override);
}

/* Forces a key, logs the operator, and wakes the thread that removes forces which have ended. */
int forced_keys_set(struct forced_keys *forced, const struct decision_context *context,
                    const weir_limit *limit, struct slice name, const struct key_phase *key,
                    const struct override *override)
{
	int status;

	if (!algo_has_phases(&limit->algo))
		return WEIR_EINVAL;
	forced_keys_lock(forced);
	status = force_key(forced, context, limit, name, key, override);
	forced_keys_unlock(forced);
	if (status != WEIR_OK)
		return status;
	eventfd_write(forced->overrides->fd, 1);
	log_force(forced->overrides->log, weir_limit_name(limit), key, override);
	return WEIR_OK;
}

size_t forced_keys_find_shown(struct forced_keys *forced, uint64_t limit, struct slice text,
                              struct key_phase *out)
{
	size_t n = 0;

	forced_keys_lock(forced);
	LIST_EACH (&forced->items, struct forced_key, node, item) {
		if (item->key.limit != limit || !key_phases_shows_as(&item->key, text))
			continue;
		*out = item->key;
		n++;
	}
	forced_keys_unlock(forced);
	return n;
}

bool forced_keys_find(struct forced_keys *forced, uint64_t hash, struct override *out)
{
	const struct forced_key *item;

	forced_keys_lock(forced);
	item = find_forced_key(forced, hash);
	if (item)
		*out = item->override;
	forced_keys_unlock(forced);
	return item;
}

size_t forced_keys_list(struct forced_keys *forced, uint64_t limit, struct key_phase *out)
{
	size_t n = 0;

	forced_keys_lock(forced);
	LIST_EACH (&forced->items, struct forced_key, node, item)
		if (item->key.limit == limit)
			out[n++] = item->key;
	forced_keys_unlock(forced);
	return n;
}

size_t forced_keys_list_all(struct forced_keys *forced, struct forced_key_copy *out, size_t max)
{
	size_t n = 0;

	forced_keys_lock(forced);
	LIST_EACH (&forced->items, struct forced_key, node, item)
		if (n < max)
			out[n++] = (struct forced_key_copy){item->key, item->override};
	forced_keys_unlock(forced);
	return n;
}

static void log_force_ended(struct log *log, const struct forced_key *item)
{
	char name[KEY_PHASES_TEXT_MAX];

	log_event(log, LOG_INFO, "breaker_ended", {"limit", item->limit},
	          {"key", key_phases_text(&item->key, name)});
}

/* Returns how long until the next force ends, or UINT64_MAX. */
uint64_t forced_keys_expire(struct forced_keys *forced, const struct server_config *config,
                            uint64_t now_ns)
{
	uint64_t next_end_in_ns = UINT64_MAX;

	forced_keys_lock(forced);
	LIST_EACH (&forced->items, struct forced_key, node, item) {
		/* NULL after a reload without the limit */
		const weir_limit *limit = engine_find_limit(config->engine, item->key.limit);
		uint64_t until_ns = item->override.until_ns;

		bool is_over = until_ns != 0 && until_ns <= now_ns;

		if (limit && is_over)
			log_force_ended(forced->overrides->log, item);
		if (!limit || is_over)
			remove_forced_key(forced, item);
		else if (until_ns != 0)
			next_end_in_ns = u64_min(next_end_in_ns, until_ns - now_ns);
	}
	forced_keys_unlock(forced);
	return next_end_in_ns;
}
