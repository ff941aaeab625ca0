#include "server/waiting/order.h"

#include "server/loop/work_key.h"
#include "server/waiting/park.h"

static void add_keys(const struct worker *worker, struct order *order, const struct work *work)
{
	size_t n;
	const struct work *items = items_of(work, &n);

	for (size_t i = 0; i < n; i++)
		add_keys(worker, order, &items[i]);
	if (work_split(work)) /* which keys its other items have is not known yet */
		order->count = ORDER_KEYS + 1;
	for (size_t i = 0; work_has_steps(work) && i < work->plan.step_count; i++, order->count++)
		if (order->count < ORDER_KEYS)
			order->keys[order->count] = work_key(worker, &work->plan.steps[i]);
}

static struct order order_of(const struct worker *worker, const struct work *work)
{
	struct order order = {0};

	add_keys(worker, &order, work);
	if (work->kind != REQUEST_BATCH && order.count > 0)
		order.alike = work_alike(worker, work);
	return order;
}

static bool is_wide(const struct order *order)
{
	return order->count > ORDER_KEYS;
}

static bool meet(const struct order *a, const struct order *b)
{
	if (is_wide(a) || is_wide(b))
		return a->count > 0 && b->count > 0;
	for (size_t i = 0; i < a->count; i++)
		for (size_t j = 0; j < b->count; j++)
			if (a->keys[i] == b->keys[j])
				return true;
	return false;
}

static size_t filter_at(const struct client *client, uint64_t key)
{
	return (key ^ (uintptr_t)client >> 6) % WORKER_ORDER_FILTER;
}

/* Whether any work of the list may have one of the keys. */
static bool may_meet(const struct worker *worker, const struct client *client,
                     const struct order *order)
{
	if (is_wide(order) || client->wide > 0)
		return true;
	for (size_t i = 0; i < order->count; i++)
		if (worker->order_filter[filter_at(client, order->keys[i])] > 0)
			return true;
	return false;
}

/* The work that one with `order` must wait for, of `newest` and those before it; or NULL. */
static struct parked *leader(struct parked *newest, const struct order *order)
{
	for (struct parked *parked = newest; parked; parked = parked->order.older) {
		const struct order *other = &parked->order;

		if (!meet(other, order))
			continue;
		/* Where an equal work may go on, this one may, too: their keys are the same. */
		return other->behind || other->alike == 0 || other->alike != order->alike ? parked : NULL;
	}
	return NULL;
}

bool order_is_behind(const struct worker *worker, const struct work *work)
{
	const struct client *client = client_of(work->conn);
	struct order order;

	if (!client->newest)
		return false;
	order = order_of(worker, work);
	return may_meet(worker, client, &order) && leader(client->newest, &order) != NULL;
}

static void count_keys(struct worker *worker, struct client *client, const struct order *order,
                       int by)
{
	if (is_wide(order))
		client->wide += (size_t)by;
	for (size_t i = 0; !is_wide(order) && i < order->count; i++)
		worker->order_filter[filter_at(client, order->keys[i])] += (uint32_t)by;
}

static void append(struct worker *worker, struct parked *parked)
{
	struct client *client = client_of(parked->held.conn);

	parked->order.is_in = true;
	parked->order.older = client->newest;
	if (client->newest)
		client->newest->order.newer = parked;
	client->newest = parked;
	count_keys(worker, client, &parked->order, 1);
}

static void follow(struct parked *parked, struct parked *leader)
{
	parked->order.behind = leader;
	leader->order.leads = true;
}

bool order_waits(struct worker *worker, struct parked *parked)
{
	struct client *client = client_of(parked->held.conn);
	struct order *order = &parked->order;
	struct parked *first;

	*order = (struct order){0};
	if (conn_streams(parked->held.conn))
		return false;
	*order = order_of(worker, &parked->work);
	first = client->newest && may_meet(worker, client, order) ? leader(client->newest, order) : NULL;
	if (!first)
		return false;
	append(worker, parked);
	follow(parked, first);
	return true;
}

void order_join(struct worker *worker, struct parked *parked)
{
	if (!parked->order.is_in && parked->order.count > 0)
		append(worker, parked);
}

static void take_out(struct worker *worker, struct parked *parked)
{
	struct client *client = client_of(parked->held.conn);
	struct order *order = &parked->order;

	*(order->newer ? &order->newer->order.older : &client->newest) = order->older;
	if (order->older)
		order->older->order.newer = order->newer;
	count_keys(worker, client, order, -1);
	order->is_in = false;
	order->count = 0; /* it does not join again */
}

void order_leave(struct worker *worker, struct parked *parked, void (*start)(struct parked *parked))
{
	struct parked *next = parked->order.newer;

	if (!parked->order.is_in)
		return;
	take_out(worker, parked);
	for (; parked->order.leads && next; next = next->order.newer) {
		struct parked *first;

		if (next->order.behind != parked)
			continue;
		first = leader(next->order.older, &next->order);
		next->order.behind = NULL;
		if (first)
			follow(next, first);
		else
			start(next);
	}
}
