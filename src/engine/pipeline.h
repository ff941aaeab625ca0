/*
 * pipeline.h: carries the requests of a batch through stages, so that waits for memory overlap.
 * Each stage prefetches the memory that the next stage needs.
 *
 * Requests go in blocks, each one stage behind the block before it. So the memory of one block is
 * fetched while other blocks are worked on. With a single block, each stage is a pass over all
 * requests. The last stage decides the requests in their order.
 */
#ifndef ENGINE_PIPELINE_H
#define ENGINE_PIPELINE_H

#include "base/number.h"

#define PIPELINE_STAGES 4

/* Runs a stage for the requests from `start` up to `end`. */
typedef void pipeline_stage(void *context, size_t start, size_t end);

struct pipeline {
	size_t block; /* requests */
	pipeline_stage *stages[PIPELINE_STAGES]; /* the first of them; the others are NULL */
};

/** Inline, for stages that are known there: they are called directly, or inlined. */
__attribute__((always_inline)) static inline void pipeline_run(struct pipeline line, size_t n,
                                                               void *context)
{
	for (size_t next = 0; next < n + (PIPELINE_STAGES - 1) * line.block; next += line.block)
#pragma GCC unroll 4
		for (size_t s = 0; s < PIPELINE_STAGES; s++) {
			size_t start = next - s * line.block; /* before 0 is beyond all */

			if (line.stages[s] && start < n)
				line.stages[s](context, start, u64_min(start + line.block, n));
		}
}

#endif
