#include "server/admin/forced.h"

#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>

#include "engine/engine.h"
#include "proto/fill.h"

struct forced_item {
	struct list_node node;
	struct switched switched;
	struct phased_key key;
	char *limit; /* its name */
};

void forced_open(struct forced *forced, struct switches *switches)
{
	pthread_mutexattr_t recursive;

	*forced = (struct forced){.switches = switches};
	pthread_mutexattr_init(&recursive);
	pthread_mutexattr_settype(&recursive, PTHREAD_MUTEX_RECURSIVE);
	pthread_mutex_init(&forced->mutex, &recursive);
	pthread_mutexattr_destroy(&recursive);
}

void forced_lock(struct forced *forced)
{
	pthread_mutex_lock(&forced->mutex);
}

void forced_unlock(struct forced *forced)
{
	pthread_mutex_unlock(&forced->mutex);
}

static struct forced_item *find(const struct forced *forced, uint64_t hash)
{
	LIST_EACH(&forced->items, struct forced_item, node, item)
		if (item->key.hash == hash)
			return item;
	return NULL;
}

static void drop(struct forced *forced, struct forced_item *item)
{
	list_remove(&forced->items, &item->node);
	forced->count--;
	free(item->limit);
	free(item);
}

void forced_close(struct forced *forced)
{
	LIST_EACH(&forced->items, struct forced_item, node, item)
		drop(forced, item);
	pthread_mutex_destroy(&forced->mutex);
}

/* The key's item, or a new one without a switch. */
static int get(struct forced *forced, const weir_limit *limit, const struct phased_key *key,
               struct forced_item **out)
{
	struct forced_item *item = find(forced, key->hash);

	*out = item;
	if (item)
		return WEIR_OK;
	if (forced->count == FORCED_MAX)
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

/* As the table's clock tells it, which the wall's may have left. */
static uint64_t table_time(const struct turn *turn, const struct switched *switched)
{
	if (switched->until_ns == 0)
		return 0;
	return sat_add(turn->at.now_ns, sat_sub(switched->until_ns, switched->at_ns));
}

static int put(struct forced *forced, const struct turn *turn, const weir_limit *limit,
               struct slice key, const struct switched *switched)
{
	struct phased_key named = {
	    .hash = store_hash(turn->table->store, limit->algo.identity, key.data, key.len),
	    .limit = limit->algo.identity};
	bool is_new = !find(forced, named.hash);
	struct forced_item *item = NULL;
	int status;

	phased_name(&named, key);
	status = switched->force == WEIR_FORCE_AUTO ? WEIR_OK : get(forced, limit, &named, &item);
	if (status != WEIR_OK)
		return status;
	status = engine_force(turn, limit, key, (enum weir_force)switched->force,
	                      table_time(turn, switched));
	if (status == WEIR_OK && item)
		item->switched = *switched;
	else if (find(forced, named.hash) && (is_new || status == WEIR_OK))
		drop(forced, find(forced, named.hash));
	return status;
}

static void tell(struct log *log, const char *limit, const struct phased_key *key,
                 const struct switched *switched)
{
	struct buffer name = {0}, until = {0};
	struct log_field fields[] = {{"limit", limit, 0},
	                             {"key", NULL, 0},
	                             {"state", fill_force_text(switched->force).data, 0},
	                             {"by", switched->by, 0},
	                             {"until", NULL, 0}};
	size_t n = switched->until_ns != 0 ? 5 : 4;

	phased_add_name(key, &name);
	when_add_date(&until, switched->until_ns);
	buffer_add(&until, "", 1);
	fields[1].text = name.failed ? "?" : name.data;
	fields[4].text = until.failed ? "?" : until.data;
	log_write(log, LOG_INFO, "breaker_forced", fields, n);
	buffer_free(&name);
	buffer_free(&until);
}

int forced_set(struct forced *forced, const struct turn *turn, const weir_limit *limit,
               struct slice key, const struct switched *switched)
{
	struct phased_key named = {0};
	int status;

	if (!algo_has_phases(&limit->algo))
		return WEIR_EINVAL;
	forced_lock(forced);
	status = put(forced, turn, limit, key, switched);
	forced_unlock(forced);
	if (status != WEIR_OK)
		return status;
	eventfd_write(forced->switches->fd, 1);
	phased_name(&named, key);
	tell(forced->switches->log, weir_limit_name(limit), &named, switched);
	return WEIR_OK;
}

bool forced_find(struct forced *forced, uint64_t hash, struct switched *out)
{
	const struct forced_item *item;

	forced_lock(forced);
	item = find(forced, hash);
	if (item)
		*out = item->switched;
	forced_unlock(forced);
	return item;
}

size_t forced_list(struct forced *forced, uint64_t limit, struct phased_key *out)
{
	size_t n = 0;

	forced_lock(forced);
	LIST_EACH(&forced->items, struct forced_item, node, item)
		if (item->key.limit == limit)
			out[n++] = item->key;
	forced_unlock(forced);
	return n;
}

static void tell_end(struct log *log, const struct forced_item *item)
{
	struct buffer name = {0};

	phased_add_name(&item->key, &name);
	log_say(log, LOG_INFO, "breaker_ended", {"limit", item->limit},
	        {"key", name.failed ? "?" : name.data});
	buffer_free(&name);
}

uint64_t forced_end(struct forced *forced, const struct server_config *config, uint64_t now_ns)
{
	uint64_t left_ns = UINT64_MAX;

	forced_lock(forced);
	LIST_EACH(&forced->items, struct forced_item, node, item) {
		const weir_limit *limit = engine_limit_of(config->engine, item->key.limit);
		uint64_t until_ns = item->switched.until_ns;

		if (limit && (until_ns == 0 || until_ns > now_ns)) {
			left_ns = until_ns != 0 ? u64_min(left_ns, until_ns - now_ns) : left_ns;
			continue;
		}
		if (limit)
			tell_end(forced->switches->log, item);
		drop(forced, item);
	}
	forced_unlock(forced);
	return left_ns;
}
