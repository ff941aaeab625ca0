/*
 * pipeline.h: requests on their way through stages. Each stage needs memory that the stage before
 * has asked for.
 *
 * Requests go in blocks, each one stage behind the block before it, so that memory is never idle.
 * If all are one block, a stage is a pass over all. The last stage decides, in their order.
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
