#include "server/stores/quorum_group.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/os/os.h"
#include "net/net.h"
#include "rules/model.h"
#include "server/stores/group_keys.h"

#define ENTRIES_MAX             64 /* keys that a call reports on */
#define RECENT_SLOTS            1024
#define RECENT_UNIT_NS          NS_PER_MS
#define PROBE_REQUESTS_APART_NS (10 * NS_PER_MS)
#define LEASE_NS                (2 * NS_PER_S) /* plus some polls, see lease_ns() */
/* how long a closed key is kept, which is longer than in the store */
#define KEY_IDLE_NS (600 * NS_PER_S)

struct quorum_group {
	struct limit_group limit; /* the first member: limits point to it */
	struct exchange exchange;
	struct quorum_group *next;
	struct store *store;
	const struct quorum_groups *groups;
	char *name;
	struct server_config *config; /* of the call that is under way, or NULL */
	bool is_done;                 /* the call has ended, with exchange.operation.status */
	bool rejoining;               /* the server has not received all of the group's decisions yet */
	bool has_left;                /* the server stops, and has released its probes and votes */
	uint64_t since;               /* the newest version that it has received */
	uint64_t first_answer_ns;     /* when the first answer came; monotonic, as are the next two */
	uint64_t sent_ns;             /* when the last call was sent */
	uint64_t due_ns;              /* when the next call is due if there is nothing to report */
	/*
	 * Notifications made lately: parts of the key's hash and a time until which another is omitted.
	 * With many requests for one key, most take no lock.
	 */
	_Atomic uint64_t recent[RECENT_SLOTS];
	pthread_mutex_t lock; /* of `keys` */
	struct group_keys keys;
};

/* The data of one call of tick_group. */
struct tick {
	struct decider *decider;
	struct quorum_group *group;
	const struct weir_limit *limit;
	uint64_t now_ns;
	uint64_t wall_ns; /* of the decision context */
	bool is_stopping;
};

/* Joining groups */

static struct quorum_group *find_group(const struct quorum_groups *groups,
                                       const struct store *store, const char *name)
{
	struct quorum_group *group = atomic_load_explicit(&groups->first, memory_order_acquire);

	while (group && (group->store != store || strcmp(group->name, name) != 0))
		group = group->next;
	return group;
}

static struct quorum_group *add_group(struct quorum_groups *groups, struct store *store,
                                      const char *name)
{
	struct quorum_group *group = calloc(1, sizeof *group);

	if (!group)
		return NULL;
	group->name = strdup(name);
	if (!group->name) {
		free(group);
		return NULL;
	}
	group->store = store;
	group->groups = groups;
	group->rejoining = true;
	group->keys = GROUP_KEYS_NONE;
	pthread_mutex_init(&group->lock, NULL);
	group->next = atomic_load_explicit(&groups->first, memory_order_relaxed);
	atomic_store_explicit(&groups->first, group, memory_order_release);
	return group;
}

static int draw_id(struct quorum_groups *groups)
{
	uint64_t id;

	if (*groups->id)
		return WEIR_OK;
	if (os_random(&id, sizeof id) != 0)
		return WEIR_EIO;
	snprintf(groups->id, sizeof groups->id, EXCHANGE_ID_MARK "%015llx",
	         (unsigned long long)id >> 4);
	return WEIR_OK;
}

int quorum_groups_join(struct quorum_groups *groups, const struct weir_engine *engine)
{
	int status = draw_id(groups);

	for (size_t i = 0; i < engine_limit_count(engine) && status == WEIR_OK; i++) {
		struct weir_limit *limit = (struct weir_limit *)engine_limit_at(engine, i);
		struct store *store = engine_group_store(engine_table(engine), limit);
		struct quorum_group *group = store ? find_group(groups, store, limit->name) : NULL;

		if (store && !group)
			group = add_group(groups, store, limit->name);
		limit->group = group ? &group->limit : NULL;
		status = store && !group ? WEIR_ENOMEM : WEIR_OK;
	}
	return status;
}

void quorum_groups_close(struct quorum_groups *groups)
{
	struct quorum_group *group = groups->first;

	while (group) {
		struct quorum_group *next = group->next;

		group_keys_clear(&group->keys);
		exchange_free(&group->exchange);
		pthread_mutex_destroy(&group->lock);
		server_config_release(group->config);
		free(group->name);
		free(group);
		group = next;
	}
	groups->first = NULL;
}

/* Collecting notifications */

/* Wakes the worker that sends the calls, if it runs. */
static void wake_loop(const struct quorum_groups *groups)
{
	if (groups->loop)
		net_loop_wake(groups->loop);
}

/* Returns true if a notification was marked less than its `for_ns` ago; otherwise marks one. */
static bool test_and_mark_recent(struct quorum_group *group, uint64_t hash, uint64_t now_ns,
                                 uint64_t for_ns)
{
	_Atomic uint64_t *slot = &group->recent[hash % RECENT_SLOTS];
	uint64_t mark = hash >> 40 << 40, mask = (UINT64_C(1) << 40) - 1;
	uint64_t previous = atomic_load_explicit(slot, memory_order_relaxed);

	if ((previous & ~mask) == mark && (previous & mask) > now_ns / RECENT_UNIT_NS)
		return true;
	atomic_store_explicit(slot, mark | ((now_ns + for_ns) / RECENT_UNIT_NS & mask),
	                      memory_order_relaxed);
	return false;
}

/* Drops a notification if another request has made the same one lately. */
static bool suppress_redundant(struct quorum_group *group, const struct plan_step *step,
                               const struct algo_notification *notification, uint64_t now_ns)
{
	const struct breaker_params *params = &step->limit->algo.breaker;

	if (notification->resets || notification->rejoins ||
	    (notification->good | notification->bad | notification->freed) != 0)
		return false;
	if (notification->trips)
		return test_and_mark_recent(group, step->key.hash, now_ns, params->sleep_ns / 4);
	return test_and_mark_recent(group, ~step->key.hash, now_ns, PROBE_REQUESTS_APART_NS);
}

static void merge_notification(struct quorum_group *group, struct group_key *key,
                               const struct algo_notification *notification)
{
	if (key->phase == GROUP_KEY_PROBING && notification->since_ns == key->since_ns) {
		key->good += notification->good;
		key->bad += notification->bad;
		key->slow += notification->slow;
		key->freed += notification->freed;
	}
	/* The record does not follow the group's decision: it was reset, or was forced until now. */
	key->needs_reapply |=
	    notification->rejoins || (notification->trips && key->phase != GROUP_KEY_CLOSED);
	key->trips |= notification->trips;
	key->probes_wanted += notification->wants_probe;
	key->resets |= notification->resets;
	group_keys_queue(&group->keys, key);
}

void quorum_groups_notify(void *context, const struct plan_step *step,
                          const struct algo_notification *notification)
{
	struct decider *decider = decider_of(context);
	struct quorum_group *group = (struct quorum_group *)step->limit->group;
	struct group_key *key;

	if (suppress_redundant(group, step, notification, decider->context.at.now_ns))
		return;
	pthread_mutex_lock(&group->lock);
	/* a report has the key's hash alone, so the key must be known */
	key = step->key_name.data ? group_keys_add(&group->keys, step->key.hash, step->key_name)
	                          : group_keys_find(&group->keys, step->key.hash);
	if (key) {
		key->touched_ns = decider->context.at.now_ns;
		merge_notification(group, key, notification);
	}
	pthread_mutex_unlock(&group->lock);
	wake_loop(&decider->shared->quorum_groups);
}

/* Applying the group's decisions */

/* Runs an operation of the group on the key. `notification` receives what it reports in return. */
static bool apply_call(const struct tick *tick, struct group_key *key, struct algo_call call,
                       struct algo_notification *notification)
{
	*notification = (struct algo_notification){0};
	call.notification = notification;
	key->touched_ns = tick->wall_ns;
	return engine_apply_group_operation(&tick->decider->context, tick->limit, key->hash, &call);
}

/* Applies the group's decision that the key is open or closed. */
static void apply_phase(const struct tick *tick, struct group_key *key)
{
	struct algo_notification notification;

	key->needs_reapply =
	    !apply_call(tick, key,
	                (struct algo_call){.op = key->phase == GROUP_KEY_CLOSED ? ALGO_GROUP_CLOSED
	                                                                        : ALGO_GROUP_OPEN,
	                                   .until_ns = key->began_ns,
	                                   .cost = key->doublings,
	                                   .draw = key->version},
	                &notification);
}

/* Gives back the probes that were granted for the key and not used. */
static void release_probes(const struct tick *tick, struct group_key *key)
{
	struct algo_notification notification;

	apply_call(tick, key, (struct algo_call){.op = ALGO_GROUP_LAPSE}, &notification);
	merge_notification(tick->group, key, &notification);
}

/* Lets the key pass the probes that the group has granted to this server. */
static void apply_probes(const struct tick *tick, struct group_key *key,
                         const struct exchange_event *event)
{
	struct algo_notification notification;

	if (event->count == 0)
		return;
	if (!apply_call(tick, key, (struct algo_call){.op = ALGO_GROUP_PROBES, .cost = event->count},
	                &notification)) {
		/* the probes can't be used, and go back */
		notification.since_ns = key->since_ns = tick->wall_ns;
		notification.freed = (uint32_t)event->count;
	}
	key->phase = GROUP_KEY_PROBING;
	key->version = event->number;
	key->began_ns = tick->wall_ns;
	key->since_ns = notification.since_ns;
	if (algo_notification_is_due(&notification))
		merge_notification(tick->group, key, &notification);
}

static void apply_changed_phase(const struct tick *tick, struct group_key *key,
                                const struct exchange_event *event)
{
	bool is_open = event->kind == EXCHANGE_OPEN;

	if (is_open && key->version == event->number && key->phase != GROUP_KEY_CLOSED &&
	    !key->needs_reapply)
		return; /* already applied, and it may have probes by now */
	key->phase = is_open ? GROUP_KEY_OPEN : GROUP_KEY_CLOSED;
	/* otherwise it was a window before that version that tripped */
	key->trips &= key->version == event->number;
	key->version = event->number;
	key->began_ns = sat_sub(tick->wall_ns, event->age_ns);
	key->doublings = (unsigned)u64_min(event->count, BREAKER_DOUBLINGS_MAX);
	key->good = key->bad = key->slow = key->freed = 0;
	apply_phase(tick, key);
}

static void apply_event(const struct tick *tick, const struct exchange_event *event)
{
	const struct store *store = tick->decider->shared->table->store;
	uint64_t hash = store_hash(store, tick->limit->algo.identity, event->key.data, event->key.len);
	struct group_key *key = group_keys_add(&tick->group->keys, hash, event->key);
	struct algo_notification notification;

	if (!key)
		return;
	if (event->kind == EXCHANGE_GIVEN)
		apply_probes(tick, key, event);
	/* the group is full: let this server decide by its own window */
	else if (event->kind == EXCHANGE_FULL)
		apply_call(tick, key, (struct algo_call){.op = ALGO_GROUP_OPEN, .until_ns = tick->wall_ns},
		           &notification);
	else
		apply_changed_phase(tick, key, event);
}

static void apply_answer(struct tick *tick)
{
	struct quorum_group *group = tick->group;
	struct slice answer = {group->exchange.answer.data, group->exchange.answer.len};
	struct exchange_event event;

	while (exchange_read_event(&answer, &event)) {
		if (event.kind != EXCHANGE_END) {
			apply_event(tick, &event);
			continue;
		}
		group->since = event.number;
		if (event.count > 0) {
			group->due_ns = tick->now_ns;
			continue;
		}
		group->rejoining = false;
		atomic_store_explicit(&group->limit.is_up, true, memory_order_relaxed);
	}
}

/* Opens a key that has probes of the group so that it tries probes of its own. */
static bool fall_back_to_own_probes(void *context, struct group_key *key)
{
	const struct tick *tick = context;

	if (key->phase == GROUP_KEY_PROBING) {
		uint64_t sleep_ns = breaker_sleep_ns(&tick->limit->algo.breaker, key->doublings,
		                                     breaker_spread(key->version));

		key->phase = GROUP_KEY_OPEN;
		key->began_ns = sat_sub(tick->wall_ns, sleep_ns);
		apply_phase(tick, key);
	}
	return true;
}

static void lose_store(struct tick *tick)
{
	struct quorum_group *group = tick->group;

	atomic_store_explicit(&group->limit.is_up, false, memory_order_relaxed);
	group_keys_expire(&group->keys, true, fall_back_to_own_probes, tick);
	group_keys_clear(&group->keys);
	for (size_t i = 0; i < RECENT_SLOTS; i++)
		atomic_store_explicit(&group->recent[i], 0, memory_order_relaxed);
	group->rejoining = true;
	group->since = 0;
}

/* Sending reports */

/* For group_keys_expire: queues a key that needs something. Returns whether to keep the key. */
static bool queue_or_expire_key(void *context, struct group_key *key)
{
	const struct tick *tick = context;
	uint64_t probe_ns = tick->limit->algo.breaker.probe_ns;

	if (key->needs_reapply)
		group_keys_queue(&tick->group->keys, key);
	if (key->phase == GROUP_KEY_PROBING &&
	    (tick->is_stopping || key->began_ns + probe_ns <= tick->wall_ns)) {
		key->began_ns = tick->wall_ns;
		release_probes(tick, key);
	}
	return key->phase != GROUP_KEY_CLOSED || key->touched_ns + KEY_IDLE_NS > tick->wall_ns;
}

static void write_entries(struct exchange *exchange, struct group_key *key, bool votes)
{
	struct exchange_entry entry = {.number = key->version, .key = {key->name, key->len}};

	if ((key->good | key->bad | key->freed) != 0) {
		entry.word = EXCHANGE_PROBES;
		memcpy(entry.counts, (uint32_t[]){key->good, key->bad, key->slow, key->freed},
		       sizeof entry.counts);
		exchange_add_entry(exchange, &entry);
		memset(entry.counts, 0, sizeof entry.counts);
	}
	if (key->resets) {
		entry.word = EXCHANGE_RESETS;
		exchange_add_entry(exchange, &entry);
	}
	if (key->trips && votes) {
		entry.word = EXCHANGE_TRIPS;
		exchange_add_entry(exchange, &entry);
		key->trips = false;
	}
	if (key->probes_wanted > 0) {
		entry.word = EXCHANGE_ASKS;
		entry.counts[0] = key->probes_wanted;
		exchange_add_entry(exchange, &entry);
	}
	key->good = key->bad = key->slow = key->freed = key->probes_wanted = 0;
	key->resets = false;
}

/*
 * How long the server's votes count after its last call. The votes of a server that stalls for less
 * remain; those of a killed server end.
 */
static uint64_t lease_ns(const struct tick *tick)
{
	return LEASE_NS + 4 * tick->decider->config->rules->store_poll_ns;
}

/*
 * This server may be the restart of a killed one, with another id. It votes only when the votes of
 * its former process have ended, so that one server never counts as two.
 */
static bool may_vote(const struct tick *tick)
{
	const struct breaker_params *params = &tick->limit->algo.breaker;
	uint64_t first_answer_ns = tick->group->first_answer_ns;

	return params->quorum <= 1 ||
	       (first_answer_ns > 0 &&
	        tick->now_ns - first_answer_ns > u64_min(lease_ns(tick), params->sleep_ns));
}

/*
 * Writes entries of queued keys into the call. A key whose vote may not be cast yet stays queued.
 */
static void write_queued(struct tick *tick)
{
	struct group_keys *keys = &tick->group->keys;
	struct group_key *delayed[ENTRIES_MAX], *key;
	bool votes = may_vote(tick);
	size_t count = 0;

	for (size_t i = 0; i < ENTRIES_MAX && (key = group_keys_pop(keys)); i++) {
		if (key->needs_reapply)
			apply_phase(tick, key);
		write_entries(&tick->group->exchange, key, votes);
		if (key->trips)
			delayed[count++] = key;
	}
	for (size_t i = 0; i < count; i++)
		group_keys_queue(keys, delayed[i]);
}

/* The iteration may have sent its calls already, so another one must follow. */
static void on_call_done(struct store_operation *operation)
{
	struct quorum_group *group =
	    (struct quorum_group *)((char *)operation - offsetof(struct quorum_group, exchange));

	group->is_done = true;
	wake_loop(group->groups);
}

/* Sends what is queued, and asks for decisions since the last version. */
static void send_call(struct tick *tick)
{
	struct quorum_group *group = tick->group;
	struct decider *decider = tick->decider;
	struct store_operation *operation = &group->exchange.operation;
	uint64_t poll_ns = decider->config->rules->store_poll_ns;
	struct exchange_server server = {.id = decider->shared->quorum_groups.id,
	                                 .since = group->since,
	                                 .rejoining = group->rejoining,
	                                 .lease_ns = tick->is_stopping ? 0 : lease_ns(tick)};

	*operation = (struct store_operation){
	    .step = {.store = group->store,
	             .limit = &tick->limit->algo,
	             .at = decider->context.at,
	             .call = {.op = ALGO_EXCHANGE_VOTES}},
	    .limit_name = group->name,
	    .done = on_call_done,
	};
	exchange_begin_votes(&group->exchange, &server);
	/* queues keys that need something, and frees idle ones */
	group_keys_expire(&group->keys, tick->is_stopping, queue_or_expire_key, tick);
	write_queued(tick);
	group->sent_ns = tick->now_ns;
	group->due_ns = tick->now_ns + poll_ns - poll_ns / 4;
	group->has_left = tick->is_stopping;
	group->config = server_config_retain(decider->config);
	group->store->kind->submit(decider->store_clients->by_store[group->store->index], operation);
}

/* Applies the answer of the call that has ended. */
static void finish_call(struct tick *tick)
{
	struct quorum_group *group = tick->group;

	group->is_done = false;
	if (group->exchange.operation.status == WEIR_OK) {
		group->first_answer_ns = group->first_answer_ns ? group->first_answer_ns : tick->now_ns;
		apply_answer(tick);
	} else {
		lose_store(tick);
	}
	server_config_release(group->config);
	group->config = NULL;
}

/* When the next call has to be sent. */
static uint64_t next_call_ns(const struct tick *tick)
{
	const struct quorum_group *group = tick->group;
	uint64_t soon_ns = group->sent_ns + tick->decider->config->rules->store_poll_ns / 4;

	if (tick->is_stopping)
		return group->has_left ? UINT64_MAX : 0;
	return group->keys.queue.first && !group->rejoining ? u64_min(soon_ns, group->due_ns)
	                                                    : group->due_ns;
}

/*
 * Finds the group's limit in the configuration that the call under way was made by, or else in the
 * worker's. Returns false if that has no such limit, or another group has it.
 */
static bool find_limit(struct tick *tick)
{
	const struct quorum_group *group = tick->group;
	const struct decider *decider = tick->decider;
	const struct server_config *config = group->config ? group->config : decider->config;

	tick->limit = weir_engine_limit(config->engine, group->name, strlen(group->name));
	return tick->limit && tick->limit->group == &group->limit &&
	       group->store->index < store_clients_count(decider->store_clients);
}

/* Returns when the group is due again, or 0 if that depends on the store. */
static uint64_t tick_group(struct tick *tick)
{
	struct quorum_group *group = tick->group;
	bool has_limit = true;
	uint64_t due_ns = 0;

	pthread_mutex_lock(&group->lock);
	if (group->is_done) {
		finish_call(tick);
		/* the configuration of the call may have been freed, with the limit */
		has_limit = find_limit(tick);
	}
	if (has_limit && !group->config) {
		if (next_call_ns(tick) <= tick->now_ns)
			send_call(tick);
		else
			due_ns = next_call_ns(tick);
	}
	pthread_mutex_unlock(&group->lock);
	return due_ns == UINT64_MAX ? 0 : due_ns;
}

uint64_t quorum_groups_tick(struct decider *decider)
{
	struct quorum_groups *groups = &decider->shared->quorum_groups;
	struct quorum_group *group = atomic_load_explicit(&groups->first, memory_order_acquire);
	struct tick tick = {.decider = decider,
	                    .is_stopping =
	                        atomic_load_explicit(&decider->shared->stopping, memory_order_relaxed)};
	uint64_t due_ns = 0;

	if (__builtin_expect(!group || decider->index > 0, 1))
		return 0;
	decider_read_clock(decider);
	tick.now_ns = os_monotonic_ns();
	tick.wall_ns = decider->context.at.now_ns;
	for (; group; group = group->next) {
		uint64_t one_ns = 0;

		tick.group = group;
		if (find_limit(&tick))
			one_ns = tick_group(&tick);
		if (one_ns != 0 && (due_ns == 0 || one_ns < due_ns))
			due_ns = one_ns;
	}
	return due_ns;
}
