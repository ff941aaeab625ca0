/*
 * key_order.c: keeps requests of one connection on one key in the order of their arrival. A request
 * is delayed while an earlier one with a key in common waits or is at a store.
 *
 * Each client lists its works (requests that are being processed) that others may have to wait for.
 * A counting filter over the keys in these lists spares most requests the search.
 */
#include "server/waiting/key_order.h"

#include "server/loop/work_key.h"
#include "server/waiting/suspend.h"

/*
 * Adds the keys of a work, or of all items of a batch. Keys beyond ORDER_KEYS are only counted
 * (has_many_keys).
 */
static void add_keys(const struct key_order *key_order, struct work_order *order,
                     const struct work *work)
{
	size_t n;
	const struct work *items = items_of(work, &n);

	for (size_t i = 0; i < n; i++)
		add_keys(key_order, order, &items[i]);
	if (work_has_items_to_begin(work)) /* whose keys are not known yet */
		order->key_count = ORDER_KEYS + 1;
	for (size_t i = 0; work_has_plan(work) && i < work->plan.step_count; i++, order->key_count++)
		if (order->key_count < ORDER_KEYS)
			order->keys[order->key_count] = work_key(key_order->table, &work->plan.steps[i]);
}

/* Collects what decides about the order of a work: its keys, and a hash of its effect. */
static struct work_order make_order(const struct key_order *key_order, const struct work *work)
{
	struct work_order order = {0};

	add_keys(key_order, &order, work);
	if (work->kind != REQUEST_BATCH && order.key_count > 0)
		order.effect_hash = work_effect_hash(key_order->table, work);
	return order;
}

static bool has_many_keys(const struct work_order *order)
{
	return order->key_count > ORDER_KEYS;
}

/* A work with more keys than are listed counts as having all keys. */
static bool share_key(const struct work_order *a, const struct work_order *b)
{
	if (has_many_keys(a) || has_many_keys(b))
		return a->key_count > 0 && b->key_count > 0;
	for (size_t i = 0; i < a->key_count; i++)
		for (size_t j = 0; j < b->key_count; j++)
			if (a->keys[i] == b->keys[j])
				return true;
	return false;
}

static size_t filter_slot(const struct client *client, uint64_t key)
{
	return (key ^ (uintptr_t)client >> 6) % ORDER_FILTER;
}

/* Whether, by the filter, any work of the client may have one of the keys. */
static bool may_share_key(const struct key_order *key_order, const struct client *client,
                          const struct work_order *order)
{
	if (has_many_keys(order) || client->many_keys_count > 0)
		return true;
	for (size_t i = 0; i < order->key_count; i++)
		if (key_order->filter[filter_slot(client, order->keys[i])] > 0)
			return true;
	return false;
}

/*
 * Returns the work that a work with `order` must wait for, searching from `newest` to older ones;
 * or NULL.
 */
static struct suspended *find_predecessor(const struct list *list, struct list_node *newest,
                                          const struct work_order *order)
{
	for (struct list_node *node = newest; node; node = list_previous(list, node)) {
		struct suspended *suspended = list_of(node, struct suspended, order.node);
		const struct work_order *other = &suspended->order;
		bool runs_beside_other;

		if (!share_key(other, order))
			continue;
		/*
		 * Works with the same effect (kind, operation, cost and keys) may run together, because
		 * their order shows in no answer. If the older one waits for none, then none of the still
		 * older works has one of these keys.
		 */
		runs_beside_other = !other->predecessor && other->effect_hash != 0 &&
		                    other->effect_hash == order->effect_hash;
		return runs_beside_other ? NULL : suspended;
	}
	return NULL;
}

bool key_order_must_wait(const struct key_order *key_order, const struct work *work)
{
	const struct client *client = client_of(work->conn);
	struct work_order order;

	if (!client->ordered.first)
		return false;
	order = make_order(key_order, work);
	return may_share_key(key_order, client, &order) &&
	       find_predecessor(&client->ordered, list_last(&client->ordered), &order) != NULL;
}

/* Adds the keys of a work to the filter (`change` 1) or removes them (-1). */
static void change_filter(struct key_order *key_order, struct client *client,
                          const struct work_order *order, int change)
{
	if (has_many_keys(order))
		client->many_keys_count += (size_t)change;
	for (size_t i = 0; !has_many_keys(order) && i < order->key_count; i++)
		key_order->filter[filter_slot(client, order->keys[i])] += (uint32_t)change;
}

/* Lists the work: later works of its client may have to wait for it. */
static void append_order(struct key_order *key_order, struct suspended *suspended)
{
	struct client *client = client_of(suspended->unanswered.conn);

	list_append(&client->ordered, &suspended->order.node);
	change_filter(key_order, client, &suspended->order, 1);
}

static void wait_behind(struct suspended *suspended, struct suspended *predecessor)
{
	suspended->order.predecessor = predecessor;
	predecessor->order.has_followers = true;
}

/* Returns true if the work must wait for a predecessor: key_order_remove starts it then. */
bool key_order_enqueue(struct key_order *key_order, struct suspended *suspended)
{
	struct client *client = client_of(suspended->unanswered.conn);
	struct work_order *order = &suspended->order;
	struct suspended *predecessor;

	*order = (struct work_order){0};
	if (conn_answers_in_any_order(suspended->unanswered.conn))
		return false;
	*order = make_order(key_order, &suspended->work);
	if (!client->ordered.first || !may_share_key(key_order, client, order))
		return false;
	predecessor = find_predecessor(&client->ordered, list_last(&client->ordered), order);
	if (!predecessor)
		return false;
	append_order(key_order, suspended);
	wait_behind(suspended, predecessor);
	return true;
}

void key_order_add(struct key_order *key_order, struct suspended *suspended)
{
	if (!list_has(&suspended->order.node) && suspended->order.key_count > 0)
		append_order(key_order, suspended);
}

static void unlink_order(struct key_order *key_order, struct suspended *suspended)
{
	struct client *client = client_of(suspended->unanswered.conn);
	struct work_order *order = &suspended->order;

	list_remove(&client->ordered, &order->node);
	change_filter(key_order, client, order, -1);
	order->key_count = 0; /* so that it is not added again */
}

/*
 * Takes `suspended` off its client's list. A work that has waited for it may share keys with a
 * still older one: it waits for that now, or starts.
 */
void key_order_remove(struct key_order *key_order, struct suspended *suspended,
                      void (*start)(struct suspended *suspended))
{
	struct list_node *node = suspended->order.node.next;
	const struct list *list;

	if (!list_has(&suspended->order.node))
		return;
	list = &client_of(suspended->unanswered.conn)->ordered;
	unlink_order(key_order, suspended);
	for (; suspended->order.has_followers && node; node = node->next) {
		struct suspended *next = list_of(node, struct suspended, order.node), *predecessor;

		if (next->order.predecessor != suspended)
			continue;
		predecessor = find_predecessor(list, list_previous(list, node), &next->order);
		next->order.predecessor = NULL;
		if (predecessor)
			wait_behind(next, predecessor);
		else
			start(next);
	}
}
