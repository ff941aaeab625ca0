#include "server/stores/fleet.h"

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/os/os.h"
#include "net/net.h"
#include "rules/model.h"
#include "server/stores/fleet_keys.h"

#define SAYS_MAX     64  /* keys of which a call says something */
#define QUIET        1024
#define QUIET_TICKS  NS_PER_MS
#define ASKS_QUIET   (10 * NS_PER_MS)
#define LEASE_NS     (2 * NS_PER_S) /* and some polls: see lease_ns() */
#define IDLE_NS      (600 * NS_PER_S) /* a closed key is remembered longer than the store does */

struct fleet {
	struct limit_group limit; /* first: what limits point to */
	struct exchange exchange;
	struct fleet *next;
	struct store *store;
	const struct fleets *fleets;
	char *name;
	struct server_config *config; /* of the call that is on its way; NULL: there is none */
	bool is_done;                 /* it has ended, with exchange.operation.status */
	bool is_back;                 /* the server knows nothing of what the fleet knows */
	bool has_left;                /* it stops, and has given back what it had */
	uint64_t since;               /* the newest turn that it knows */
	uint64_t heard_ns;            /* the first answer; monotonic, as are: */
	uint64_t sent_ns;             /* the last call */
	uint64_t due_ns;              /* the next one, if there is nothing to say */
	/* Keys told lately, by hash and until when, so that a crowd of requests takes no lock. */
	_Atomic uint64_t quiet[QUIET];
	pthread_mutex_t lock; /* of: */
	struct fleet_keys keys;
};

/* The data of one tick. */
struct tick {
	struct decider *decider;
	struct fleet *fleet;
	const struct weir_limit *limit;
	uint64_t now_ns;      /* monotonic */
	uint64_t wall_ns;     /* of the turn */
	bool leaves;
};

/* Joining */

static struct fleet *find(const struct fleets *fleets, const struct store *store, const char *name)
{
	struct fleet *fleet = atomic_load_explicit(&fleets->first, memory_order_acquire);

	while (fleet && (fleet->store != store || strcmp(fleet->name, name) != 0))
		fleet = fleet->next;
	return fleet;
}

static struct fleet *add(struct fleets *fleets, struct store *store, const char *name)
{
	struct fleet *fleet = calloc(1, sizeof *fleet);

	if (!fleet)
		return NULL;
	fleet->name = strdup(name);
	if (!fleet->name) {
		free(fleet);
		return NULL;
	}
	fleet->store = store;
	fleet->fleets = fleets;
	fleet->is_back = true;
	fleet->keys = FLEET_KEYS_NONE;
	pthread_mutex_init(&fleet->lock, NULL);
	fleet->next = atomic_load_explicit(&fleets->first, memory_order_relaxed);
	atomic_store_explicit(&fleets->first, fleet, memory_order_release);
	return fleet;
}

static int draw_id(struct fleets *fleets)
{
	uint64_t id;

	if (*fleets->id)
		return WEIR_OK;
	if (os_random(&id, sizeof id) != 0)
		return WEIR_EIO;
	snprintf(fleets->id, sizeof fleets->id, EXCHANGE_ID_MARK "%015llx",
	         (unsigned long long)id >> 4);
	return WEIR_OK;
}

int fleets_join(struct fleets *fleets, const struct weir_engine *engine)
{
	int status = draw_id(fleets);

	for (size_t i = 0; i < engine_limit_count(engine) && status == WEIR_OK; i++) {
		struct weir_limit *limit = (struct weir_limit *)engine_limit_at(engine, i);
		struct store *store = engine_group_store(engine_table(engine), limit);
		struct fleet *fleet = store ? find(fleets, store, limit->name) : NULL;

		if (store && !fleet)
			fleet = add(fleets, store, limit->name);
		limit->group = fleet ? &fleet->limit : NULL;
		status = store && !fleet ? WEIR_ENOMEM : WEIR_OK;
	}
	return status;
}

void fleets_close(struct fleets *fleets)
{
	struct fleet *fleet = fleets->first;

	while (fleet) {
		struct fleet *next = fleet->next;

		fleet_keys_clear(&fleet->keys);
		exchange_free(&fleet->exchange);
		pthread_mutex_destroy(&fleet->lock);
		server_config_drop(fleet->config);
		free(fleet->name);
		free(fleet);
		fleet = next;
	}
	fleets->first = NULL;
}

/* Telling */

/* The worker that talks, while it runs. */
static void wake(const struct fleets *fleets)
{
	if (fleets->loop)
		net_loop_wake(fleets->loop);
}

/* Whether the same was told lately; else it will have been, for so long. */
static bool is_quiet(struct fleet *fleet, uint64_t hash, uint64_t now_ns, uint64_t for_ns)
{
	_Atomic uint64_t *place = &fleet->quiet[hash % QUIET];
	uint64_t mark = hash >> 40 << 40, mask = (UINT64_C(1) << 40) - 1;
	uint64_t seen = atomic_load_explicit(place, memory_order_relaxed);

	if ((seen & ~mask) == mark && (seen & mask) > now_ns / QUIET_TICKS)
		return true;
	atomic_store_explicit(place, mark | ((now_ns + for_ns) / QUIET_TICKS & mask),
	                      memory_order_relaxed);
	return false;
}

/* A request that finds what others have found before says nothing new. */
static bool is_told(struct fleet *fleet, const struct step *step, const struct algo_notification *told,
                    uint64_t now_ns)
{
	const struct health_params *params = &step->limit->algo.health;

	if (told->resets || told->rejoins || (told->good | told->bad | told->freed) != 0)
		return false;
	if (told->trips)
		return is_quiet(fleet, step->key.hash, now_ns, params->sleep_ns / 4);
	return is_quiet(fleet, ~step->key.hash, now_ns, ASKS_QUIET);
}

static void take_note(struct fleet *fleet, struct fleet_key *key, const struct algo_notification *told)
{
	if (key->phase == FLEET_PROBING && told->since_ns == key->since_ns) {
		key->good += told->good;
		key->bad += told->bad;
		key->slow += told->slow;
		key->freed += told->freed;
	}
	/* The row does not do what the fleet has said: it was reset, or forced until now. */
	key->waits |= told->rejoins || (told->trips && key->phase != FLEET_CLOSED);
	key->trips |= told->trips;
	key->asks += told->asks;
	key->resets |= told->resets;
	fleet_keys_queue(&fleet->keys, key);
}

void fleets_told(void *context, const struct step *step, const struct algo_notification *told)
{
	struct decider *decider = decider_of(context);
	struct fleet *fleet = (struct fleet *)step->limit->group;
	struct fleet_key *key;

	if (is_told(fleet, step, told, decider->context.at.now_ns))
		return;
	pthread_mutex_lock(&fleet->lock);
	key = step->key_name.data ? fleet_keys_add(&fleet->keys, step->key.hash, step->key_name)
	                          : fleet_keys_find(&fleet->keys, step->key.hash);
	if (key) {
		key->touched_ns = decider->context.at.now_ns;
		take_note(fleet, key, told);
	}
	pthread_mutex_unlock(&fleet->lock);
	wake(&decider->shared->fleets);
}

/* Doing what the fleet says */

/* With what comes back in `told`. */
static bool obey(const struct tick *tick, struct fleet_key *key, struct algo_call call,
                 struct algo_notification *told)
{
	*told = (struct algo_notification){0};
	call.notification = told;
	key->touched_ns = tick->wall_ns;
	return engine_follow_group(&tick->decider->context, tick->limit, key->hash, &call);
}

/* Open or closed, as it is known. */
static void put(const struct tick *tick, struct fleet_key *key)
{
	struct algo_notification told;

	key->waits = !obey(tick, key,
	                   (struct algo_call){.op = key->phase == FLEET_CLOSED ? ALGO_GROUP_CLOSED
	                                                                     : ALGO_GROUP_OPEN,
	                                      .until_ns = key->began_ns,
	                                      .cost = key->doublings,
	                                      .draw = key->number},
	                   &told);
}

/* Gives back the probes that the key was given and does not use. */
static void lapse(const struct tick *tick, struct fleet_key *key)
{
	struct algo_notification told;

	obey(tick, key, (struct algo_call){.op = ALGO_GROUP_LAPSE}, &told);
	take_note(tick->fleet, key, &told);
}

static void take_probes(const struct tick *tick, struct fleet_key *key,
                        const struct exchange_news *news)
{
	struct algo_notification told;

	if (news->count == 0)
		return;
	if (!obey(tick, key, (struct algo_call){.op = ALGO_GROUP_PROBES, .cost = news->count}, &told)) {
		told.since_ns = key->since_ns = tick->wall_ns; /* they go back */
		told.freed = (uint32_t)news->count;
	}
	key->phase = FLEET_PROBING;
	key->number = news->number;
	key->began_ns = tick->wall_ns;
	key->since_ns = told.since_ns;
	if (algo_notifies(&told))
		take_note(tick->fleet, key, &told);
}

static void take_phase(const struct tick *tick, struct fleet_key *key,
                       const struct exchange_news *news)
{
	bool is_open = news->kind == EXCHANGE_OPEN;

	if (is_open && key->number == news->number && key->phase != FLEET_CLOSED && !key->waits)
		return; /* it is known, and may have probes by now */
	key->phase = is_open ? FLEET_OPEN : FLEET_CLOSED;
	key->trips &= key->number == news->number; /* else a window of before has tripped */
	key->number = news->number;
	key->began_ns = sat_sub(tick->wall_ns, news->age_ns);
	key->doublings = (unsigned)u64_min(news->count, HEALTH_DOUBLINGS_MAX);
	key->good = key->bad = key->slow = key->freed = 0;
	put(tick, key);
}

static void take_news(const struct tick *tick, const struct exchange_news *news)
{
	const struct store *store = tick->decider->shared->table->store;
	uint64_t hash = store_hash(store, tick->limit->algo.identity, news->key.data, news->key.len);
	struct fleet_key *key = fleet_keys_add(&tick->fleet->keys, hash, news->key);
	struct algo_notification told;

	if (!key)
		return;
	if (news->kind == EXCHANGE_GIVEN)
		take_probes(tick, key, news);
	else if (news->kind == EXCHANGE_FULL) /* by its own window then */
		obey(tick, key, (struct algo_call){.op = ALGO_GROUP_OPEN, .until_ns = tick->wall_ns},
		     &told);
	else
		take_phase(tick, key, news);
}

static void hear(struct tick *tick)
{
	struct fleet *fleet = tick->fleet;
	struct slice heard = {fleet->exchange.answer.data, fleet->exchange.answer.len};
	struct exchange_news news;

	while (exchange_next(&heard, &news)) {
		if (news.kind != EXCHANGE_END) {
			take_news(tick, &news);
			continue;
		}
		fleet->since = news.number;
		if (news.count > 0) {
			fleet->due_ns = tick->now_ns;
			continue;
		}
		fleet->is_back = false;
		atomic_store_explicit(&fleet->limit.is_up, true, memory_order_relaxed);
	}
}

/* Without the fleet: a key with probes of it tries its own. */
static bool let_go(void *context, struct fleet_key *key)
{
	const struct tick *tick = context;

	if (key->phase == FLEET_PROBING) {
		uint64_t sleep_ns = health_sleep_ns(&tick->limit->algo.health, key->doublings,
		                                    health_spread(key->number));

		key->phase = FLEET_OPEN;
		key->began_ns = sat_sub(tick->wall_ns, sleep_ns);
		put(tick, key);
	}
	return true;
}

static void go_away(struct tick *tick)
{
	struct fleet *fleet = tick->fleet;

	atomic_store_explicit(&fleet->limit.is_up, false, memory_order_relaxed);
	fleet_keys_sweep(&fleet->keys, true, let_go, tick);
	fleet_keys_clear(&fleet->keys);
	for (size_t i = 0; i < QUIET; i++)
		atomic_store_explicit(&fleet->quiet[i], 0, memory_order_relaxed);
	fleet->is_back = true;
	fleet->since = 0;
}

/* Saying */

static bool see(void *context, struct fleet_key *key)
{
	const struct tick *tick = context;
	uint64_t probe_ns = tick->limit->algo.health.probe_ns;

	if (key->waits)
		fleet_keys_queue(&tick->fleet->keys, key);
	if (key->phase == FLEET_PROBING && (tick->leaves || key->began_ns + probe_ns <= tick->wall_ns)) {
		key->began_ns = tick->wall_ns;
		lapse(tick, key);
	}
	return key->phase != FLEET_CLOSED || key->touched_ns + IDLE_NS > tick->wall_ns;
}

static void say_of(struct exchange *exchange, struct fleet_key *key, bool may_vote)
{
	struct exchange_entry say = {.number = key->number, .key = {key->name, key->len}};

	if ((key->good | key->bad | key->freed) != 0) {
		say.word = EXCHANGE_PROBES;
		memcpy(say.counts, (uint32_t[]){key->good, key->bad, key->slow, key->freed},
		       sizeof say.counts);
		exchange_add(exchange, &say);
		memset(say.counts, 0, sizeof say.counts);
	}
	if (key->resets) {
		say.word = EXCHANGE_RESETS;
		exchange_add(exchange, &say);
	}
	if (key->trips && may_vote) {
		say.word = EXCHANGE_TRIPS;
		exchange_add(exchange, &say);
		key->trips = false;
	}
	if (key->asks > 0) {
		say.word = EXCHANGE_ASKS;
		say.counts[0] = key->asks;
		exchange_add(exchange, &say);
	}
	key->good = key->bad = key->slow = key->freed = key->asks = 0;
	key->resets = false;
}

/*
 * How long the votes of a server count after its last call. So one that stalls for shorter keeps
 * them, and those of one that was killed end.
 */
static uint64_t lease_ns(const struct tick *tick)
{
	return LEASE_NS + 4 * tick->decider->config->rules->store_poll_ns;
}

/*
 * A server that was killed may be this one, which has another id since. Its votes must have ended
 * before this one votes: one server must not count as two.
 */
static bool may_vote(const struct tick *tick)
{
	const struct health_params *params = &tick->limit->algo.health;
	uint64_t heard_ns = tick->fleet->heard_ns;

	return params->quorum <= 1 ||
	       (heard_ns > 0 && tick->now_ns - heard_ns > u64_min(lease_ns(tick), params->sleep_ns));
}

/* Says what is queued; votes that may not be cast yet stay in the queue. */
static void say_queued(struct tick *tick)
{
	struct fleet_keys *keys = &tick->fleet->keys;
	struct fleet_key *early[SAYS_MAX], *key;
	bool votes = may_vote(tick);
	size_t count = 0;

	for (size_t i = 0; i < SAYS_MAX && (key = fleet_keys_take(keys)); i++) {
		if (key->waits)
			put(tick, key);
		say_of(&tick->fleet->exchange, key, votes);
		if (key->trips)
			early[count++] = key;
	}
	for (size_t i = 0; i < count; i++)
		fleet_keys_queue(keys, early[i]);
}

/* Maybe when the turn has sent what it had, so that there has to be another one. */
static void ended(struct store_operation *operation)
{
	struct fleet *fleet = (struct fleet *)((char *)operation - offsetof(struct fleet, exchange));

	fleet->is_done = true;
	wake(fleet->fleets);
}

static void send(struct tick *tick)
{
	struct fleet *fleet = tick->fleet;
	struct decider *decider = tick->decider;
	struct store_operation *operation = &fleet->exchange.operation;
	uint64_t poll_ns = decider->config->rules->store_poll_ns;
	struct exchange_server server = {.id = decider->shared->fleets.id,
	                                 .since = fleet->since,
	                                 .is_back = fleet->is_back,
	                                 .lease_ns = tick->leaves ? 0 : lease_ns(tick)};

	*operation = (struct store_operation){
	    .step = {.store = fleet->store,
	             .limit = &tick->limit->algo,
	             .at = decider->context.at,
	             .call = {.op = ALGO_EXCHANGE_VOTES}},
	    .limit_name = fleet->name,
	    .done = ended,
	};
	exchange_begin(&fleet->exchange, &server);
	fleet_keys_sweep(&fleet->keys, tick->leaves, see, tick);
	say_queued(tick);
	fleet->sent_ns = tick->now_ns;
	fleet->due_ns = tick->now_ns + poll_ns - poll_ns / 4;
	fleet->has_left = tick->leaves;
	fleet->config = server_config_take(decider->config);
	fleet->store->kind->submit(decider->store_clients->by_store[fleet->store->index], operation);
}

/* Takes in the results of the tick's call. */
static void finish(struct tick *tick)
{
	struct fleet *fleet = tick->fleet;

	fleet->is_done = false;
	if (fleet->exchange.operation.status == WEIR_OK) {
		fleet->heard_ns = fleet->heard_ns ? fleet->heard_ns : tick->now_ns;
		hear(tick);
	} else {
		go_away(tick);
	}
	server_config_drop(fleet->config);
	fleet->config = NULL;
}

/* When it is to be sent to. */
static uint64_t due(const struct tick *tick)
{
	const struct fleet *fleet = tick->fleet;
	uint64_t soon_ns = fleet->sent_ns + tick->decider->config->rules->store_poll_ns / 4;

	if (tick->leaves)
		return fleet->has_left ? UINT64_MAX : 0;
	return fleet->keys.queue.first && !fleet->is_back ? u64_min(soon_ns, fleet->due_ns) : fleet->due_ns;
}

/*
 * Finds the fleet's limit in the configuration by which its call was written, while one is on its
 * way, else in the worker's. False: none there, or another fleet's.
 */
static bool find_limit(struct tick *tick)
{
	const struct fleet *fleet = tick->fleet;
	const struct decider *decider = tick->decider;
	const struct server_config *config = fleet->config ? fleet->config : decider->config;

	tick->limit = weir_engine_limit(config->engine, fleet->name, strlen(fleet->name));
	return tick->limit && tick->limit->group == &fleet->limit &&
	       fleet->store->index < store_clients_count(decider->store_clients);
}

/* Returns when it is due again; 0: when the store has answered. */
static uint64_t tick_one(struct tick *tick)
{
	struct fleet *fleet = tick->fleet;
	bool has_limit = true;
	uint64_t due_ns = 0;

	pthread_mutex_lock(&fleet->lock);
	if (fleet->is_done) {
		finish(tick);
		has_limit = find_limit(tick); /* the one before may have ended with its configuration */
	}
	if (has_limit && !fleet->config) {
		if (due(tick) <= tick->now_ns)
			send(tick);
		else
			due_ns = due(tick);
	}
	pthread_mutex_unlock(&fleet->lock);
	return due_ns == UINT64_MAX ? 0 : due_ns;
}

uint64_t fleets_tick(struct decider *decider)
{
	struct fleets *fleets = &decider->shared->fleets;
	struct fleet *fleet = atomic_load_explicit(&fleets->first, memory_order_acquire);
	struct tick tick = {.decider = decider,
	                    .leaves = atomic_load_explicit(&decider->shared->stopping,
	                                                   memory_order_relaxed)};
	uint64_t due_ns = 0;

	if (__builtin_expect(!fleet || decider->index > 0, 1))
		return 0;
	decider_read_clock(decider);
	tick.now_ns = os_monotonic_ns();
	tick.wall_ns = decider->context.at.now_ns;
	for (; fleet; fleet = fleet->next) {
		uint64_t one_ns = 0;

		tick.fleet = fleet;
		if (find_limit(&tick))
			one_ns = tick_one(&tick);
		if (one_ns != 0 && (due_ns == 0 || one_ns < due_ns))
			due_ns = one_ns;
	}
	return due_ns;
}
