/*
 * quorum_group.c: lets several servers decide a limit together: a breaker, which denies a key while
 * it is open, opens when enough servers vote so. Later the group grants its servers some probes,
 * requests that may pass, whose results close the key or open it again. Votes and decisions, which
 * have versions, are exchanged by periodic calls to a store; no request waits for a call.
 */
#include "server/stores/quorum_group.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/os/os.h"
#include "net/net.h"
#include "rules/model.h"
#include "server/stores/group_keys.h"

#define CALL_KEYS_MAX           64 /* keys that a call reports on */
#define RECENT_SLOTS            1024
#define RECENT_UNIT_NS          NS_PER_MS
#define PROBE_REQUESTS_APART_NS (10 * NS_PER_MS)
#define LEASE_NS                (2 * NS_PER_S) /* plus some polls, see lease_ns() */
#define KEY_IDLE_NS             (600 * NS_PER_S) /* until a closed key is freed; longer than in the store */

struct quorum_group {
	struct limit_group limit_group; /* the first member: limits point to it */
	struct exchange exchange;
	struct quorum_group *next;
	struct store *store;
	const struct quorum_groups *groups;
	char *name;
	struct server_config *call_config; /* of the call that is under way, or NULL */
	bool call_has_ended;               /* with exchange.operation.status */
	bool rejoining;           /* the server has not received all of the group's decisions yet */
	bool has_left;            /* the server stops, and has released its probes and votes */
	uint64_t known_version;   /* the newest version that it has received */
	uint64_t first_answer_ns; /* when the first answer came; monotonic, as are the next two */
	uint64_t last_call_ns;    /* when the last call was sent */
	uint64_t next_call_ns;    /* when the next call is due, at the latest */
	/*
	 * Notifications made lately: parts of the key's hash and a time until which another is omitted.
	 * With many requests for one key, most take no lock.
	 */
	_Atomic uint64_t recent[RECENT_SLOTS];
	pthread_mutex_t lock; /* of `keys` */
	struct group_keys keys;
};

/* The arguments that most functions below share: a group and the time at which it is served. */
struct group_tick {
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
	char *own_name = strdup(name);

	if (!group || !own_name) {
		free(group);
		free(own_name);
		return NULL;
	}
	group->name = own_name;
	group->store = store;
	group->groups = groups;
	group->rejoining = true;
	group->keys = GROUP_KEYS_NONE;
	pthread_mutex_init(&group->lock, NULL);
	group->next = atomic_load_explicit(&groups->first, memory_order_relaxed);
	atomic_store_explicit(&groups->first, group, memory_order_release);
	return group;
}

/* Gives this server a random id, unless it has one. Returns 0 or EIO. */
static int draw_id(struct quorum_groups *groups)
{
	uint64_t id;

	if (*groups->id)
		return WEIR_OK;
	if (os_random(&id, sizeof id) != 0)
		return WEIR_EIO;
	snprintf(groups->id, sizeof groups->id, EXCHANGE_ID_MARK "%015llx", /* 60 of the bits */
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
		limit->group = group ? &group->limit_group : NULL;
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
		server_config_release(group->call_config);
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

/*
 * Returns true if `hash` is marked; otherwise marks it for `for_ns`. A mark has 24 bits of the hash
 * above 40 bits of the time at which it ends, in ms.
 */
static bool test_and_mark_slot(struct quorum_group *group, uint64_t hash, uint64_t now_ns,
                               uint64_t for_ns)
{
	_Atomic uint64_t *slot = &group->recent[hash % RECENT_SLOTS];
	uint64_t hash_bits = hash >> 40 << 40, time_mask = (UINT64_C(1) << 40) - 1;
	uint64_t previous = atomic_load_explicit(slot, memory_order_relaxed);

	if ((previous & ~time_mask) == hash_bits && (previous & time_mask) > now_ns / RECENT_UNIT_NS)
		return true;
	atomic_store_explicit(slot, hash_bits | ((now_ns + for_ns) / RECENT_UNIT_NS & time_mask),
	                      memory_order_relaxed);
	return false;
}

/*
 * Returns whether another request has made the same notification lately, so that it can be dropped.
 * Votes and wishes for probes have a slot each; others are never dropped.
 */
static bool test_and_mark_repeated(struct quorum_group *group, const struct plan_step *step,
                                   const struct algo_notification *notification, uint64_t now_ns)
{
	const struct breaker_params *params = &step->limit->algo.breaker;

	if (notification->resets || notification->rejoins ||
	    (notification->good | notification->bad | notification->freed) != 0)
		return false;
	if (notification->trips)
		return test_and_mark_slot(group, step->key.hash, now_ns, params->sleep_ns / 4);
	return test_and_mark_slot(group, ~step->key.hash, now_ns, PROBE_REQUESTS_APART_NS);
}

/* Adds what a request reports to what the next call sends. */
static void merge_notification(struct quorum_group *group, struct group_key *key,
                               const struct algo_notification *notification)
{
	/* an operator has forced the record until now, or it trips as if it were closed */
	bool has_lost_decision =
	    notification->rejoins || (notification->trips && key->phase != GROUP_KEY_CLOSED);

	/* results of an earlier probing phase do not count in this one */
	if (key->phase == GROUP_KEY_PROBING && notification->since_ns == key->probing_since_ns) {
		key->results.good += notification->good;
		key->results.bad += notification->bad;
		key->results.slow += notification->slow;
		key->results.unused += notification->freed;
	}
	key->needs_reapply |= has_lost_decision;
	key->has_vote |= notification->trips;
	key->probes_wanted += notification->wants_probe;
	key->was_reset |= notification->resets;
	group_keys_queue(&group->keys, key);
}

void quorum_groups_notify(void *context, const struct plan_step *step,
                          const struct algo_notification *notification)
{
	struct decider *decider = decider_of(context);
	struct quorum_group *group = (struct quorum_group *)step->limit->group;
	struct group_key *key;

	if (test_and_mark_repeated(group, step, notification, decider->context.at.now_ns))
		return;
	pthread_mutex_lock(&group->lock);
	/* a report has the key's hash alone, so the key must be known */
	key = step->key_name.data ? group_keys_add(&group->keys, step->key.hash, step->key_name)
	                          : group_keys_find(&group->keys, step->key.hash);
	if (key) {
		key->used_ns = decider->context.at.now_ns;
		merge_notification(group, key, notification);
	}
	pthread_mutex_unlock(&group->lock);
	wake_loop(&decider->shared->quorum_groups);
}

/* Applying the group's decisions */

/*
 * Runs an operation of the group on the key's record in this server's table. `notification`
 * receives what it reports in return. Returns false if the record can't follow the group.
 */
static bool apply_call(const struct group_tick *tick, struct group_key *key, struct algo_call call,
                       struct algo_notification *notification)
{
	*notification = (struct algo_notification){0};
	call.notification = notification;
	key->used_ns = tick->wall_ns;
	return engine_apply_group_operation(&tick->decider->context, tick->limit, key->hash, &call);
}

/* Makes the key's record open or closed, as the group has decided. */
static void apply_phase(const struct group_tick *tick, struct group_key *key)
{
	struct algo_notification notification;
	bool is_closed = key->phase == GROUP_KEY_CLOSED;
	struct algo_call call = {.op = is_closed ? ALGO_GROUP_CLOSED : ALGO_GROUP_OPEN,
	                         .until_ns = key->phase_began_ns,
	                         .cost = key->failed_in_a_row, /* these operations have no cost, */
	                         .draw = key->version};        /* and draw nothing */

	key->needs_reapply = !apply_call(tick, key, call, &notification);
}

/* Gives back the probes that were granted for the key and not used. */
static void release_probes(const struct group_tick *tick, struct group_key *key)
{
	struct algo_notification notification;

	apply_call(tick, key, (struct algo_call){.op = ALGO_GROUP_LAPSE}, &notification);
	merge_notification(tick->group, key, &notification);
}

/* Lets requests of the key pass as the probes that the group has granted to this server. */
static void apply_probes(const struct group_tick *tick, struct group_key *key,
                         const struct exchange_event *event)
{
	struct algo_notification notification;

	if (event->count == 0)
		return;
	if (!apply_call(tick, key, (struct algo_call){.op = ALGO_GROUP_PROBES, .cost = event->count},
	                &notification)) {
		/* the record can't have probes: they go back to the group as unused */
		notification.since_ns = tick->wall_ns;
		notification.freed = (uint32_t)event->count;
	}
	key->phase = GROUP_KEY_PROBING;
	key->version = event->version;
	key->phase_began_ns = tick->wall_ns;
	key->probing_since_ns = notification.since_ns;
	if (algo_notification_is_due(&notification))
		merge_notification(tick->group, key, &notification);
}

/* Applies an event that opens or closes the key, or repeats that. */
static void apply_changed_phase(const struct group_tick *tick, struct group_key *key,
                                const struct exchange_event *event)
{
	bool is_open = event->kind == EXCHANGE_OPEN;
	bool is_open_already =
	    key->version == event->version && key->phase != GROUP_KEY_CLOSED && !key->needs_reapply;

	/* opening it again would take the probes that it may have by now; closing again is harmless */
	if (is_open && is_open_already)
		return;
	key->phase = is_open ? GROUP_KEY_OPEN : GROUP_KEY_CLOSED;
	/* a vote that was cast before this version does not count after it */
	key->has_vote &= key->version == event->version;
	key->version = event->version;
	key->phase_began_ns = sat_sub(tick->wall_ns, event->age_ns);
	key->failed_in_a_row = (unsigned)u64_min(event->count, BREAKER_DOUBLINGS_MAX); /* probes */
	key->results = (struct probe_results){0};
	apply_phase(tick, key);
}

static void apply_event(const struct group_tick *tick, const struct exchange_event *event)
{
	const struct store *store = tick->decider->shared->table->store;
	uint64_t hash = store_hash(store, tick->limit->algo.identity, event->key.data, event->key.len);
	struct group_key *key = group_keys_add(&tick->group->keys, hash, event->key);
	struct algo_notification notification;

	if (!key)
		return;
	if (event->kind == EXCHANGE_GRANTED_PROBES) {
		apply_probes(tick, key, event);
	} else if (event->kind == EXCHANGE_FULL) {
		/* the store has no space for the key and this server's vote: it opens here alone, now */
		apply_call(tick, key, (struct algo_call){.op = ALGO_GROUP_OPEN, .until_ns = tick->wall_ns},
		           &notification);
	} else {
		apply_changed_phase(tick, key, event);
	}
}

/* Applies all events of a call's answer. The last one is EXCHANGE_END. */
static void apply_answer(struct group_tick *tick)
{
	struct quorum_group *group = tick->group;
	struct slice answer = {group->exchange.answer.data, group->exchange.answer.len};
	struct exchange_event event;

	while (exchange_read_event(&answer, &event)) {
		if (event.kind != EXCHANGE_END) {
			apply_event(tick, &event);
			continue;
		}
		group->known_version = event.version;
		if (event.count > 0) { /* there are more events: fetch them at once */
			group->next_call_ns = tick->now_ns;
			continue;
		}
		group->rejoining = false;
		atomic_store_explicit(&group->limit_group.is_up, true, memory_order_relaxed);
	}
}

/*
 * For group_keys_expire: replaces the phase of a key with probes of the group by an open one whose
 * sleep ends now. The next request begins to probe then, without the group.
 */
static bool let_server_probe_alone(void *context, struct group_key *key)
{
	const struct group_tick *tick = context;

	if (key->phase == GROUP_KEY_PROBING) {
		uint64_t sleep_ns = breaker_sleep_ns(&tick->limit->algo.breaker, key->failed_in_a_row,
		                                     breaker_spread(key->version));

		key->phase = GROUP_KEY_OPEN;
		key->phase_began_ns = sat_sub(tick->wall_ns, sleep_ns);
		apply_phase(tick, key);
	}
	return true;
}

/* The store is unavailable: this server decides by itself until it rejoins the group. */
static void handle_lost_store(struct group_tick *tick)
{
	struct quorum_group *group = tick->group;
	const bool visits_all = true;

	atomic_store_explicit(&group->limit_group.is_up, false, memory_order_relaxed);
	group_keys_expire(&group->keys, visits_all, let_server_probe_alone, tick);
	group_keys_clear(&group->keys);
	for (size_t i = 0; i < RECENT_SLOTS; i++)
		atomic_store_explicit(&group->recent[i], 0, memory_order_relaxed);
	group->rejoining = true;
	group->known_version = 0;
}

/* Sending reports */

/* For group_keys_expire: queues what must be sent or applied. Returns whether to keep the key. */
static bool queue_or_expire_key(void *context, struct group_key *key)
{
	const struct group_tick *tick = context;
	uint64_t probe_ns = tick->limit->algo.breaker.probe_ns;

	if (key->needs_reapply)
		group_keys_queue(&tick->group->keys, key);
	if (key->phase == GROUP_KEY_PROBING &&
	    (tick->is_stopping || key->phase_began_ns + probe_ns <= tick->wall_ns)) {
		key->phase_began_ns = tick->wall_ns;
		release_probes(tick, key);
	}
	return key->phase != GROUP_KEY_CLOSED || key->used_ns + KEY_IDLE_NS > tick->wall_ns;
}

/*
 * How long the server's votes count after its last call. The votes of a server that stalls for less
 * remain; those of a killed server end.
 */
static uint64_t lease_ns(const struct group_tick *tick)
{
	return LEASE_NS + 4 * tick->decider->config->rules->store_poll_ns;
}

/*
 * This server may be the restart of a killed one, with another id. It votes only when the votes of
 * its former process have ended, so that one server never counts as two.
 */
static bool may_server_vote(const struct group_tick *tick)
{
	const struct breaker_params *params = &tick->limit->algo.breaker;
	uint64_t first_answer_ns = tick->group->first_answer_ns;

	return params->quorum <= 1 ||
	       (first_answer_ns > 0 &&
	        tick->now_ns - first_answer_ns > u64_min(lease_ns(tick), params->sleep_ns));
}

/* Writes what is queued into the call. A key whose vote may not be cast yet stays queued. */
static void write_queued_keys(struct group_tick *tick)
{
	struct group_keys *keys = &tick->group->keys;
	struct group_key *with_vote[CALL_KEYS_MAX], *key;
	bool may_vote = may_server_vote(tick);
	size_t count = 0;

	for (size_t i = 0; i < CALL_KEYS_MAX && (key = group_keys_pop(keys)); i++) {
		if (key->needs_reapply)
			apply_phase(tick, key);
		group_keys_write_entries(&tick->group->exchange, key, may_vote);
		if (key->has_vote)
			with_vote[count++] = key;
	}
	for (size_t i = 0; i < count; i++)
		group_keys_queue(keys, with_vote[i]);
}

/* The iteration may have served the groups already: the next one applies the answer. */
static void on_call_done(struct store_operation *operation)
{
	struct quorum_group *group =
	    (struct quorum_group *)((char *)operation - offsetof(struct quorum_group, exchange));

	group->call_has_ended = true;
	wake_loop(group->groups);
}

/* Sends what is queued, and asks for decisions since the last version. */
static void send_call(struct group_tick *tick)
{
	struct quorum_group *group = tick->group;
	struct decider *decider = tick->decider;
	struct store_operation *operation = &group->exchange.operation;
	uint64_t poll_ns = decider->config->rules->store_poll_ns;
	struct exchange_server server = {.id = decider->shared->quorum_groups.id,
	                                 .known_version = group->known_version,
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
	write_queued_keys(tick);
	group->last_call_ns = tick->now_ns;
	/* reports wait for a quarter (when_to_call_ns), so all servers know them within `store_poll` */
	group->next_call_ns = tick->now_ns + poll_ns - poll_ns / 4;
	group->has_left = tick->is_stopping;
	group->call_config = server_config_retain(decider->config);
	group->store->kind->submit(decider->store_clients->by_store[group->store->index], operation);
}

/* Applies the answer of the call that has ended. */
static void finish_call(struct group_tick *tick)
{
	struct quorum_group *group = tick->group;

	group->call_has_ended = false;
	if (group->exchange.operation.status == WEIR_OK) {
		group->first_answer_ns = group->first_answer_ns ? group->first_answer_ns : tick->now_ns;
		apply_answer(tick);
	} else {
		handle_lost_store(tick);
	}
	server_config_release(group->call_config);
	group->call_config = NULL;
}

/*
 * Returns when the next call has to be sent: at most every quarter of `store_poll` if there is
 * something to report. When the server stops: one at once, then never.
 */
static uint64_t when_to_call_ns(const struct group_tick *tick)
{
	const struct quorum_group *group = tick->group;
	uint64_t report_ns = group->last_call_ns + tick->decider->config->rules->store_poll_ns / 4;

	if (tick->is_stopping)
		return group->has_left ? UINT64_MAX : 0;
	if (group->rejoining || !group->keys.queue.first) /* nothing to report */
		return group->next_call_ns;
	return u64_min(report_ns, group->next_call_ns);
}

/*
 * Finds the group's limit in the configuration that the call under way was made by, or else in the
 * worker's. Returns false if that has no such limit, or another group has it.
 */
static bool find_limit_of_group(struct group_tick *tick)
{
	const struct quorum_group *group = tick->group;
	const struct decider *decider = tick->decider;
	const struct server_config *config = group->call_config ? group->call_config : decider->config;

	tick->limit = weir_engine_limit(config->engine, group->name, strlen(group->name));
	return tick->limit && tick->limit->group == &group->limit_group &&
	       group->store->index < store_clients_count(decider->store_clients);
}

/* Applies an answer and sends a call, if due. Returns when to do so again, or 0 for never. */
static uint64_t tick_group(struct group_tick *tick)
{
	struct quorum_group *group = tick->group;
	bool has_limit = true;
	uint64_t due_ns = 0;

	pthread_mutex_lock(&group->lock);
	if (group->call_has_ended) {
		finish_call(tick); /* which may free the configuration of the call, with the limit */
		has_limit = find_limit_of_group(tick);
	}
	if (has_limit && !group->call_config) {
		if (when_to_call_ns(tick) <= tick->now_ns)
			send_call(tick);
		else
			due_ns = when_to_call_ns(tick);
	}
	pthread_mutex_unlock(&group->lock);
	return due_ns == UINT64_MAX ? 0 : due_ns;
}

uint64_t quorum_groups_tick(struct decider *decider)
{
	struct quorum_groups *groups = &decider->shared->quorum_groups;
	struct quorum_group *group = atomic_load_explicit(&groups->first, memory_order_acquire);
	struct group_tick tick = {
	    .decider = decider,
	    .is_stopping = atomic_load_explicit(&decider->shared->stopping, memory_order_relaxed)};
	uint64_t due_ns = 0;

	if (__builtin_expect(!group || decider->index > 0, 1))
		return 0;
	decider_read_clock(decider);
	tick.now_ns = os_monotonic_ns();
	tick.wall_ns = decider->context.at.now_ns;
	for (; group; group = group->next) {
		uint64_t group_due_ns;

		tick.group = group;
		group_due_ns = find_limit_of_group(&tick) ? tick_group(&tick) : 0;
		if (group_due_ns != 0 && (due_ns == 0 || group_due_ns < due_ns))
			due_ns = group_due_ns;
	}
	return due_ns;
}
