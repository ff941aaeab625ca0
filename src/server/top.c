/*
 * top.c: Space-Saving (Metwally, Agrawal and El Abbadi, "Efficient computation
 * of frequent and top-k elements in data streams", 2005).
 *
 * A pair that has a counter adds to it. Another takes over the smallest counter
 * with its count, by which it may then be too high: its error. Counters start
 * at zero and nobody's, so that taking one over is all there is to coming in.
 * The counts of a loop add up to its denials, hence the smallest is at most W/m,
 * and who has no counter was denied no more often than that. Halving all counts
 * at once changes neither their order nor these bounds.
 *
 * Merging: where a loop has no counter of a pair, its smallest count stands in.
 */
#include "server/top.h"

#include <pthread.h>
#include <stdalign.h>
#include <stdlib.h>

#include <weir/weir.h>

#include "base/number.h"

#define CHAINS        (2 * TOP_COUNTERS) /* a power of two */
#define HALF_LIFE_NS  (60 * NS_PER_S)
#define HALVINGS_MAX  63 /* later nothing is left */

struct counter {
	uint64_t hash;
	double denied, error; /* halved without a remainder lost, unlike integers */
	const char *limit;    /* NULL: nobody's yet */
	uint16_t place;       /* in the heap */
	uint16_t next;        /* in its chain: index + 1, 0 at the end */
	uint16_t key_len;     /* of the whole key: TOP_KEY_MAX bytes are here */
	char key[TOP_KEY_MAX];
};

struct loop {
	alignas(64) pthread_mutex_t mutex;
	uint64_t period;             /* the half-life that the counts are faded to */
	uint16_t heap[TOP_COUNTERS]; /* by `denied`, the smallest first */
	uint16_t chains[CHAINS];     /* by hash: index + 1 of a counter */
	struct counter counters[TOP_COUNTERS];
};

struct top {
	size_t loop_count;
	struct loop *loops;
};

struct top *top_open(size_t loops)
{
	struct top *top = malloc(sizeof *top);

	if (!top)
		return NULL;
	top->loop_count = loops;
	top->loops = aligned_alloc(64, loops * sizeof *top->loops);
	if (!top->loops) {
		free(top);
		return NULL;
	}
	memset(top->loops, 0, loops * sizeof *top->loops);
	for (size_t i = 0; i < loops; i++) {
		pthread_mutex_init(&top->loops[i].mutex, NULL);
		for (uint16_t c = 0; c < TOP_COUNTERS; c++)
			top->loops[i].heap[c] = top->loops[i].counters[c].place = c;
	}
	return top;
}

void top_close(struct top *top)
{
	if (!top)
		return;
	for (size_t i = 0; i < top->loop_count; i++)
		pthread_mutex_destroy(&top->loops[i].mutex);
	free(top->loops);
	free(top);
}

static void fade(struct loop *loop, uint64_t now_ns)
{
	uint64_t period = now_ns / HALF_LIFE_NS, halvings = sat_sub(period, loop->period);
	double factor = halvings > HALVINGS_MAX ? 0 : 1.0 / (double)(UINT64_C(1) << halvings);

	if (halvings == 0)
		return;
	loop->period = period;
	for (size_t i = 0; i < TOP_COUNTERS; i++) {
		loop->counters[i].denied *= factor;
		loop->counters[i].error *= factor;
	}
}

/* Restores the heap's order below a counter that has grown. */
static void sink(struct loop *loop, struct counter *counter)
{
	size_t place = counter->place, child;
	uint16_t self = loop->heap[place];

	while ((child = 2 * place + 1) < TOP_COUNTERS) {
		struct counter *least = &loop->counters[loop->heap[child]];

		if (child + 1 < TOP_COUNTERS) {
			struct counter *other = &loop->counters[loop->heap[child + 1]];

			least = other->denied < least->denied ? other : least;
		}
		if (least->denied >= counter->denied)
			break;
		child = least->place;
		loop->heap[place] = loop->heap[child];
		least->place = (uint16_t)place;
		place = child;
	}
	loop->heap[place] = self;
	counter->place = (uint16_t)place;
}

static uint16_t *chain_of(struct loop *loop, uint64_t hash)
{
	return &loop->chains[hash & (CHAINS - 1)];
}

static struct counter *find(struct loop *loop, uint64_t hash)
{
	for (uint16_t at = *chain_of(loop, hash); at; at = loop->counters[at - 1].next)
		if (loop->counters[at - 1].hash == hash)
			return &loop->counters[at - 1];
	return NULL;
}

static struct counter *take_over(struct loop *loop, uint64_t hash, const char *limit,
                                 struct slice key)
{
	uint16_t number = loop->heap[0] + 1, *at;
	struct counter *counter = &loop->counters[number - 1];

	if (counter->limit) {
		for (at = chain_of(loop, counter->hash); *at != number; at = &loop->counters[*at - 1].next)
			;
		*at = counter->next;
	}
	at = chain_of(loop, hash);
	counter->next = *at;
	*at = number;
	counter->hash = hash;
	counter->limit = limit;
	counter->error = counter->denied;
	counter->key_len = (uint16_t)u64_min(key.len, UINT16_MAX);
	if (key.len > 0)
		memcpy(counter->key, key.data, u64_min(key.len, TOP_KEY_MAX));
	return counter;
}

void top_count(struct top *top, size_t index, uint64_t hash, const char *limit, struct slice key,
               uint64_t now_ns)
{
	struct loop *loop = &top->loops[index];
	struct counter *counter;

	pthread_mutex_lock(&loop->mutex);
	fade(loop, now_ns);
	counter = find(loop, hash);
	if (!counter)
		counter = take_over(loop, hash, limit, key);
	counter->denied++;
	sink(loop, counter);
	pthread_mutex_unlock(&loop->mutex);
}

/* Copies the counters in use, less the smallest count, which is added to *floor. */
static size_t copy_loop(struct loop *loop, uint64_t now_ns, struct counter *out, double *floor)
{
	double least;
	size_t n = 0;

	pthread_mutex_lock(&loop->mutex);
	fade(loop, now_ns);
	least = loop->counters[loop->heap[0]].denied;
	for (size_t i = 0; i < TOP_COUNTERS; i++)
		if (loop->counters[i].denied > 0) {
			out[n] = loop->counters[i];
			out[n].denied -= least;
			out[n++].error -= least;
		}
	pthread_mutex_unlock(&loop->mutex);
	*floor += least;
	return n;
}

static int by_hash(const void *left, const void *right)
{
	const struct counter *a = left, *b = right;

	return (a->hash > b->hash) - (a->hash < b->hash);
}

static int by_denied(const void *left, const void *right)
{
	const struct counter *a = left, *b = right;

	return (a->denied < b->denied) - (a->denied > b->denied);
}

/* One counter for each hash; returns how many. */
static size_t merge(struct counter *counters, size_t n)
{
	size_t kept = 0;

	qsort(counters, n, sizeof *counters, by_hash);
	for (size_t i = 0; i < n; i++) {
		if (kept > 0 && counters[kept - 1].hash == counters[i].hash) {
			counters[kept - 1].denied += counters[i].denied;
			counters[kept - 1].error += counters[i].error;
		} else {
			counters[kept++] = counters[i];
		}
	}
	return kept;
}

static void add_counter(const struct counter *counter, uint64_t denied, uint64_t error,
                        struct buffer *out)
{
	bool cut = counter->key_len > TOP_KEY_MAX;

	buffer_add_text(out, "{\"limit\":\"");
	buffer_add_json(out, slice_of(counter->limit));
	buffer_add_text(out, "\",\"key\":\"");
	buffer_add_json(out, (struct slice){counter->key, cut ? TOP_KEY_MAX : counter->key_len});
	buffer_printf(out, "%s\",\"denied\":%llu,\"error\":%llu}", cut ? "…" : "",
	              (unsigned long long)denied, (unsigned long long)error);
}

int top_render(struct top *top, size_t n, uint64_t now_ns, struct arena *arena,
               struct buffer *out)
{
	struct counter *counters =
	    arena_array(arena, top->loop_count * TOP_COUNTERS, sizeof *counters);
	size_t count = 0;
	double floor = 0;

	if (!counters)
		return WEIR_ENOMEM;
	for (size_t i = 0; i < top->loop_count; i++)
		count += copy_loop(&top->loops[i], now_ns, counters + count, &floor);
	count = merge(counters, count);
	qsort(counters, count, sizeof *counters, by_denied);
	buffer_add(out, "[", 1);
	for (size_t i = 0; i < count && i < n; i++) {
		/* To the nearest; what has faded to none is not worth a name. */
		uint64_t denied = (uint64_t)(counters[i].denied + floor + 0.5);

		if (denied == 0)
			break;
		buffer_add(out, ",", i > 0);
		add_counter(&counters[i], denied, (uint64_t)(counters[i].error + floor + 0.5), out);
	}
	buffer_add(out, "]", 1);
	return WEIR_OK;
}
