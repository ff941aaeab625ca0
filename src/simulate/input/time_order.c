/*
 * time_order.c: sorts the requests of a log by time, in bounded memory. Servers log a request when
 * it ends, so lines are nearly in order: a window of the last few thousand requests is sorted.
 */
#include "simulate/input/time_order.h"

#include <stdalign.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"
#include "simulate/input/lines.h"

/* How many requests ahead to prefetch: their memory is no longer in the cache. */
#define PREFETCH 8

/* Sizes are multiples of this, so that any gap has space for a struct ordered_record. */
#define UNIT ((size_t)64)

_Static_assert(sizeof(struct ordered_record) <= UNIT && ORDER_BYTES % UNIT == 0,
               "a gap can be described");

/* An entry of the window, with a copy of the time, so that sorting reads only entries. */
struct entry {
	uint64_t time_ns;
	struct ordered_record *ordered;
};

/*
 * Requests are in a ring in the order of the log, each contiguous, from `tail` to `head`, which
 * only grow. The window is sorted by time; it is the part of `window_entries` from window_begin on,
 * which moves up, and is moved back to the start when it reaches the end.
 */
struct order {
	uint64_t head, tail;
	uint64_t next_number, latest_ns;
	size_t window_begin, window_count;
	struct order_stats stats;
	struct entry window_entries[2 * ORDER_WINDOW];
	alignas(alignof(max_align_t)) char ring[ORDER_BYTES];
};

_Static_assert(ORDER_BYTES > 4 * LINES_LENGTH_MAX, "a line always fits in an empty ring");

struct order *order_open(void)
{
	struct order *order = malloc(sizeof *order);

	if (order)
		memset(order, 0, offsetof(struct order, window_entries));
	return order;
}

void order_close(struct order *order)
{
	free(order);
}

static struct ordered_record *ring_record(struct order *order, uint64_t position)
{
	return (struct ordered_record *)(order->ring + position % ORDER_BYTES);
}

/* Allocates `size` contiguous bytes; NULL if there is no space. */
static struct ordered_record *allocate_ordered(struct order *order, size_t size)
{
	size_t left = ORDER_BYTES - order->head % ORDER_BYTES, gap = left < size ? left : 0;
	struct ordered_record *ordered;

	if (order->head - order->tail + gap + size > ORDER_BYTES)
		return NULL;
	if (gap > 0) {
		ordered = ring_record(order, order->head);
		ordered->size = (uint32_t)gap;
		ordered->state = ORDERED_GAP;
		order->head += gap;
	}
	ordered = ring_record(order, order->head);
	ordered->size = (uint32_t)size;
	order->head += size;
	return ordered;
}

/* Inserts a request into the window at its place by time. */
static void insert(struct order *order, struct ordered_record *ordered)
{
	struct entry *window = order->window_entries + order->window_begin;
	size_t position = order->window_count;

	if (order->window_begin + order->window_count == 2 * ORDER_WINDOW) {
		memmove(order->window_entries, window, order->window_count * sizeof *window);
		window = order->window_entries;
		order->window_begin = 0;
	}
	while (position > 0 && window[position - 1].time_ns > ordered->time_ns)
		position--;
	order->stats.sorted += position < order->window_count;
	memmove(window + position + 1, window + position,
	        (order->window_count - position) * sizeof *window);
	window[position] = (struct entry){ordered->time_ns, ordered};
	order->window_count++;
}

bool order_add(struct order *order, const struct record *record, size_t value_count)
{
	size_t text = 0, size;
	struct ordered_record *ordered;
	char *copy;

	for (size_t i = 0; i < value_count; i++)
		text += record->values[i].len;
	size = sizeof *ordered + value_count * sizeof *ordered->values + text;
	size = (size + UNIT - 1) / UNIT * UNIT;
	ordered = allocate_ordered(order, size);
	if (!ordered)
		return false;
	ordered->number = order->next_number++;
	ordered->time_ns = record->time_ns;
	ordered->cost = record->cost;
	ordered->outcome = record->outcome;
	ordered->latency_ns = record->latency_ns;
	ordered->end_ns = record->end_ns;
	ordered->output = NULL;
	ordered->state = ORDERED_WAITING;
	ordered->value_count = (uint16_t)value_count;
	copy = (char *)&ordered->values[value_count];
	for (size_t i = 0; i < value_count; i++) {
		struct slice value = record->values[i];

		ordered->values[i] = (struct slice){value.data ? copy : NULL, value.len};
		if (value.len > 0)
			memcpy(copy, value.data, value.len);
		copy += value.len;
	}
	insert(order, ordered);
	return true;
}

/* A request that is older than one taken before gets its time, since time must not go back. */
static struct ordered_record *mark_taken(struct order *order, struct ordered_record *ordered)
{
	order->latest_ns = u64_max(order->latest_ns, ordered->time_ns);
	ordered->time_ns = order->latest_ns;
	ordered->state = ORDERED_TAKEN;
	return ordered;
}

struct ordered_record *order_next(struct order *order, bool ended)
{
	struct ordered_record *ordered;

	if (order->window_count == 0 || (order->window_count < ORDER_WINDOW && !ended))
		return NULL;
	ordered = order->window_entries[order->window_begin++].ordered;
	order->window_count--;
	if (order->window_count > PREFETCH)
		__builtin_prefetch(order->window_entries[order->window_begin + PREFETCH].ordered);
	order->stats.late += ordered->time_ns < order->latest_ns;
	return mark_taken(order, ordered);
}

/*
 * Called when the ring is full although all taken requests are done and released, so that the one
 * at the tail is in the window. If others there are earlier, it is decided at the time of the last
 * one taken, since with its own time it would make those late.
 */
struct ordered_record *order_evict_oldest(struct order *order)
{
	struct entry *window = order->window_entries + order->window_begin, *entry = window;
	struct ordered_record *oldest = ring_record(order, order->tail);

	while (entry->ordered != oldest)
		entry++;
	order->window_count--;
	memmove(entry, entry + 1, (size_t)(window + order->window_count - entry) * sizeof *entry);
	if (entry > window) {
		order->stats.ahead++;
		oldest->time_ns = order->latest_ns;
	}
	return mark_taken(order, oldest);
}

void order_done(struct ordered_record *ordered)
{
	ordered->state = ORDERED_DONE;
}

struct ordered_record *order_release(struct order *order)
{
	while (order->tail < order->head) {
		struct ordered_record *ordered = ring_record(order, order->tail);

		if (ordered->state == ORDERED_WAITING || ordered->state == ORDERED_TAKEN)
			return NULL;
		order->tail += ordered->size;
		if (ordered->state == ORDERED_DONE)
			return ordered;
	}
	return NULL;
}

const struct order_stats *order_stats(const struct order *order)
{
	return &order->stats;
}
