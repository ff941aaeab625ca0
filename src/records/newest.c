#include "records/newest.h"

#include "base/number.h"

/* For up to this n, all ends that matter are kept. */
#define FEW (NEWEST_CHUNK / 2)

/* Sorts the greatest first. The C library's function may allocate. */
static void sort_descending(uint64_t *ends, size_t count)
{
	static const uint16_t gaps[] = {701, 301, 132, 57, 23, 10, 4, 1};

	for (size_t g = 0; g < sizeof gaps / sizeof *gaps; g++) {
		size_t gap = gaps[g];

		for (size_t i = gap; i < count; i++) {
			uint64_t end = ends[i];
			size_t to = i;

			for (; to >= gap && ends[to - gap] < end; to -= gap)
				ends[to] = ends[to - gap];
			ends[to] = end;
		}
	}
}

void newest_begin(struct newest *newest, uint64_t n)
{
	newest->n = n;
	newest->count = newest->least = 0;
	newest->filled = newest->samples = newest->between = 0;
	newest->chunks = 0;
	newest->beyond = newest->at_later = newest->at_earlier = 0;
}

/* Adds each NEWEST_STEP-th end of the sorted chunk to the sample. */
static void sample_chunk(struct newest *newest)
{
	newest->chunks++;
	for (size_t i = NEWEST_STEP - 1; i < newest->filled && newest->samples < NEWEST_SAMPLES;
	     i += NEWEST_STEP)
		newest->sample[newest->samples++] = newest->chunk[i];
	newest->filled = 0;
}

static void reduce_chunk(struct newest *newest)
{
	sort_descending(newest->chunk, newest->filled);
	if (newest->n <= newest->filled)
		newest->least = u64_max(newest->least, newest->chunk[newest->n - 1]);
	if (newest->n <= FEW)
		newest->filled = u64_min(newest->filled, newest->n);
	else
		sample_chunk(newest);
}

void newest_add_end(struct newest *newest, uint64_t end)
{
	newest->count++;
	if (end < newest->least)
		return;
	if (newest->filled == NEWEST_CHUNK)
		reduce_chunk(newest);
	newest->chunk[newest->filled++] = end;
}

/* Sets `after` and `then` from the n-th of sorted ends. */
static void set_nth_end(struct newest *newest, const uint64_t *ends, uint64_t n)
{
	newest->after = ends[n - 1];
	for (newest->then = 0; newest->then < n && ends[n - 1 - newest->then] == newest->after;)
		newest->then++;
}

bool newest_needs_count(struct newest *newest, uint64_t n)
{
	uint64_t doubt, surely, enough;

	newest->n = n;
	newest->after = newest->then = 0;
	if (newest->n >= newest->count)
		return false;
	sort_descending(newest->chunk, newest->filled);
	if (newest->chunks == 0) {
		set_nth_end(newest, newest->chunk, newest->n);
		return false;
	}
	sample_chunk(newest);
	sort_descending(newest->sample, newest->samples);
	doubt = newest->chunks * (NEWEST_STEP - 1);
	surely = u64_min(sat_sub(newest->n, doubt) / NEWEST_STEP, newest->samples);
	enough = (newest->n + NEWEST_STEP - 1) / NEWEST_STEP;
	newest->later = surely > 0 ? newest->sample[surely - 1] : UINT64_MAX;
	newest->earlier = enough <= newest->samples ? newest->sample[enough - 1] : 0;
	newest->earlier = u64_max(newest->earlier, newest->least);
	return true;
}

void newest_count_end(struct newest *newest, uint64_t end)
{
	newest->beyond += end > newest->later;
	newest->at_later += end == newest->later;
	if (end == newest->earlier && end != newest->later)
		newest->at_earlier++;
	else if (end > newest->earlier && end < newest->later && newest->between++ < NEWEST_BETWEEN)
		newest->ends[newest->between - 1] = end;
}

bool newest_end_count(struct newest *newest)
{
	uint64_t rest = newest->n - newest->beyond;

	if (newest->beyond >= newest->n || newest->between > NEWEST_BETWEEN)
		return false;
	newest->after = newest->later;
	newest->then = rest;
	if (rest <= newest->at_later)
		return true;
	rest -= newest->at_later;
	sort_descending(newest->ends, newest->between);
	if (rest <= newest->between) {
		set_nth_end(newest, newest->ends, rest);
		return true;
	}
	newest->after = newest->earlier;
	newest->then = rest - newest->between;
	return newest->then <= newest->at_earlier;
}
