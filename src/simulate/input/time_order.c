#include "simulate/input/time_order.h"

#include <stdalign.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "simulate/input/lines.h"

/* Requests are cold by the time that they leave. */
#define PREFETCH 8

/* The ring's unit of size: a gap at its end has room for its own description. */
#define UNIT ((size_t)64)

_Static_assert(sizeof(struct ordered_record) <= UNIT && ORDER_BYTES % UNIT == 0,
               "a gap can be described");

/* In the window: beside its request, so that sorting touches nothing else. */
struct entry {
	uint64_t time_ns;
	struct ordered_record *held;
};

/*
 * Requests lie in a ring in the order of the log, each in one piece: from
 * `tail` to `head`, which only grow. The window is sorted, in the part of
 * `entries` from `first` on, which moves up and now and then back to the start.
 */
struct order {
	uint64_t head, tail;
	uint64_t number, latest_ns;
	size_t first, count;
	struct order_stats stats;
	struct entry entries[2 * ORDER_WINDOW];
	alignas(alignof(max_align_t)) char ring[ORDER_BYTES];
};

_Static_assert(ORDER_BYTES > 4 * LINES_LENGTH_MAX, "a line always fits in an empty ring");

struct order *order_open(void)
{
	struct order *order = malloc(sizeof *order);

	if (order)
		memset(order, 0, offsetof(struct order, entries));
	return order;
}

void order_close(struct order *order)
{
	free(order);
}

static struct ordered_record *at(struct order *order, uint64_t position)
{
	return (struct ordered_record *)(order->ring + position % ORDER_BYTES);
}

/* `size` bytes in one piece, or NULL. */
static struct ordered_record *allocate(struct order *order, size_t size)
{
	size_t left = ORDER_BYTES - order->head % ORDER_BYTES, gap = left < size ? left : 0;
	struct ordered_record *held;

	if (order->head - order->tail + gap + size > ORDER_BYTES)
		return NULL;
	if (gap > 0) {
		held = at(order, order->head);
		held->size = (uint32_t)gap;
		held->state = ORDERED_GAP;
		order->head += gap;
	}
	held = at(order, order->head);
	held->size = (uint32_t)size;
	order->head += size;
	return held;
}

static void insert(struct order *order, struct ordered_record *held)
{
	struct entry *entries = order->entries + order->first;
	size_t place = order->count;

	if (order->first + order->count == 2 * ORDER_WINDOW) {
		memmove(order->entries, entries, order->count * sizeof *entries);
		entries = order->entries;
		order->first = 0;
	}
	while (place > 0 && entries[place - 1].time_ns > held->time_ns)
		place--;
	order->stats.sorted += place < order->count;
	memmove(entries + place + 1, entries + place, (order->count - place) * sizeof *entries);
	entries[place] = (struct entry){held->time_ns, held};
	order->count++;
}

bool order_add(struct order *order, const struct record *record, size_t value_count)
{
	size_t text = 0, size;
	struct ordered_record *held;
	char *copy;

	for (size_t i = 0; i < value_count; i++)
		text += record->values[i].len;
	size = sizeof *held + value_count * sizeof *held->values + text;
	size = (size + UNIT - 1) / UNIT * UNIT;
	held = allocate(order, size);
	if (!held)
		return false;
	held->number = order->number++;
	held->time_ns = record->time_ns;
	held->cost = record->cost;
	held->outcome = record->outcome;
	held->latency_ns = record->latency_ns;
	held->end_ns = record->end_ns;
	held->output = NULL;
	held->state = ORDERED_WAITING;
	held->value_count = (uint16_t)value_count;
	copy = (char *)&held->values[value_count];
	for (size_t i = 0; i < value_count; i++) {
		struct slice value = record->values[i];

		held->values[i] = (struct slice){value.data ? copy : NULL, value.len};
		if (value.len > 0)
			memcpy(copy, value.data, value.len);
		copy += value.len;
	}
	insert(order, held);
	return true;
}

static struct ordered_record *leave(struct order *order, struct ordered_record *held)
{
	order->latest_ns = u64_max(order->latest_ns, held->time_ns);
	held->time_ns = order->latest_ns;
	held->state = ORDERED_LEFT;
	return held;
}

struct ordered_record *order_next(struct order *order, bool ended)
{
	struct ordered_record *held;

	if (order->count == 0 || (order->count < ORDER_WINDOW && !ended))
		return NULL;
	held = order->entries[order->first++].held;
	order->count--;
	if (order->count > PREFETCH)
		__builtin_prefetch(order->entries[order->first + PREFETCH].held);
	order->stats.late += held->time_ns < order->latest_ns;
	return leave(order, held);
}

struct ordered_record *order_evict_oldest(struct order *order)
{
	struct entry *entry = order->entries + order->first;
	struct ordered_record *held = at(order, order->tail);

	for (; entry->held != held; entry++)
		;
	memmove(entry, entry + 1,
	        (size_t)(order->entries + order->first + --order->count - entry) * sizeof *entry);
	if (entry > order->entries + order->first) {
		order->stats.ahead++;
		held->time_ns = order->latest_ns;
	}
	return leave(order, held);
}

void order_done(struct ordered_record *held)
{
	held->state = ORDERED_DONE;
}

struct ordered_record *order_release(struct order *order)
{
	while (order->tail < order->head) {
		struct ordered_record *held = at(order, order->tail);

		if (held->state < ORDERED_DONE)
			return NULL;
		order->tail += held->size;
		if (held->state == ORDERED_DONE)
			return held;
	}
	return NULL;
}

const struct order_stats *order_stats(const struct order *order)
{
	return &order->stats;
}
