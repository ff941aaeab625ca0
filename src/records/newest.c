/*
 * newest.c: finds the n newest of many entries by their ends, for a refund that names no permit.
 *
 * A first pass over the ends adds a sample of each sorted *chunk*; the samples surround the n-th
 * end by an upper and a lower one. A second pass counts the ends above the upper sample, and keeps
 * the few between the two, from which the n-th is read. If n is small, the first pass suffices.
 */
#include "records/newest.h"

#include "base/number.h"

/* For up to this n, a chunk always keeps the n newest ends so far, and there is no sample. */
#define KEPT_N_MAX (NEWEST_CHUNK / 2)

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
	newest->chunk_count = newest->sample_count = newest->between_count = 0;
	newest->reduced_chunks = 0;
	newest->above_upper = newest->at_upper = newest->at_lower = 0;
}

/* Adds each NEWEST_STEP-th end of the sorted chunk to the sample. */
static void sample_chunk(struct newest *newest)
{
	newest->reduced_chunks++;
	for (size_t i = NEWEST_STEP - 1;
	     i < newest->chunk_count && newest->sample_count < NEWEST_SAMPLES; i += NEWEST_STEP)
		newest->sample[newest->sample_count++] = newest->chunk[i];
	newest->chunk_count = 0;
}

/* Makes space in a full chunk: keeps its n newest ends, or samples it. */
static void reduce_chunk(struct newest *newest)
{
	sort_descending(newest->chunk, newest->chunk_count);
	if (newest->n <= newest->chunk_count)
		newest->least = u64_max(newest->least, newest->chunk[newest->n - 1]);
	if (newest->n <= KEPT_N_MAX)
		newest->chunk_count = u64_min(newest->chunk_count, newest->n);
	else
		sample_chunk(newest);
}

/* First pass. */
void newest_add_end(struct newest *newest, uint64_t end)
{
	newest->count++;
	if (end < newest->least)
		return;
	if (newest->chunk_count == NEWEST_CHUNK)
		reduce_chunk(newest);
	newest->chunk[newest->chunk_count++] = end;
}

/* Sets the n-th end from sorted ends, and how many of the first n are equal to it. */
static void set_nth_end(struct newest *newest, const uint64_t *ends, uint64_t n)
{
	newest->nth_end = ends[n - 1];
	for (newest->then_at_nth = 0;
	     newest->then_at_nth < n && ends[n - 1 - newest->then_at_nth] == newest->nth_end;)
		newest->then_at_nth++;
}

/*
 * Chooses, from the sorted sample, an upper and a lower one that surround the n-th end. Each sample
 * stands for NEWEST_STEP ends, so at least NEWEST_STEP * k ends are not older than the k-th sample.
 * There may be up to NEWEST_STEP - 1 more in each chunk: newer than the k-th sample, but older than
 * all samples of their chunk that are newer, too.
 */
static void choose_samples(struct newest *newest)
{
	uint64_t more_max = newest->reduced_chunks * (NEWEST_STEP - 1);
	/* The last sample that is certainly among the n newest, and the first with n ends not older. */
	uint64_t upper_rank = u64_min(sat_sub(newest->n, more_max) / NEWEST_STEP, newest->sample_count);
	uint64_t lower_rank = (newest->n + NEWEST_STEP - 1) / NEWEST_STEP;

	newest->upper_sample = upper_rank > 0 ? newest->sample[upper_rank - 1] : UINT64_MAX;
	newest->lower_sample = lower_rank <= newest->sample_count ? newest->sample[lower_rank - 1] : 0;
	newest->lower_sample = u64_max(newest->lower_sample, newest->least);
}

/*
 * Ends the first pass: finds the n-th end, or chooses the samples that surround it. `n` may be less
 * than newest_begin() got, because the caller has released some entries otherwise. Returns whether
 * a second pass is needed.
 */
bool newest_needs_count(struct newest *newest, uint64_t n)
{
	newest->n = n;
	newest->nth_end = newest->then_at_nth = 0;
	if (newest->n >= newest->count)
		return false;
	sort_descending(newest->chunk, newest->chunk_count);
	if (newest->reduced_chunks == 0) { /* the chunk still has all ends */
		set_nth_end(newest, newest->chunk, newest->n);
		return false;
	}
	sample_chunk(newest);
	sort_descending(newest->sample, newest->sample_count);
	choose_samples(newest);
	return true;
}

/* Second pass. */
void newest_count_end(struct newest *newest, uint64_t end)
{
	newest->above_upper += end > newest->upper_sample;
	newest->at_upper += end == newest->upper_sample;
	if (end == newest->lower_sample && end != newest->upper_sample)
		newest->at_lower++;
	else if (end > newest->lower_sample && end < newest->upper_sample &&
	         newest->between_count++ < NEWEST_BETWEEN)
		newest->ends[newest->between_count - 1] = end;
}

/* Ends the second pass. Returns false if the ends have changed so much that both must be repeated.
 */
bool newest_end_count(struct newest *newest)
{
	uint64_t rest = newest->n - newest->above_upper;

	if (newest->above_upper >= newest->n || newest->between_count > NEWEST_BETWEEN)
		return false;
	newest->nth_end = newest->upper_sample;
	newest->then_at_nth = rest;
	if (rest <= newest->at_upper)
		return true;
	rest -= newest->at_upper;
	sort_descending(newest->ends, newest->between_count);
	if (rest <= newest->between_count) {
		set_nth_end(newest, newest->ends, rest);
		return true;
	}
	newest->nth_end = newest->lower_sample;
	newest->then_at_nth = rest - newest->between_count;
	return newest->then_at_nth <= newest->at_lower;
}
