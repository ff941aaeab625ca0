#include "server/count.h"

#include <stdio.h>

void count_decision(struct worker *worker, size_t metric, bool shadow, bool allowed,
                    enum weir_reason reason)
{
	struct metrics_counts *counts =
	    metrics_counts_of(worker->config->metrics[metric], worker->index);

	metrics_add(&counts->decisions[shadow][allowed][reason], 1);
}

/*
 * Tokens and cookies of visitors are told apart, but not shown: "#" and 8 hexadecimal digits.
 * Apart: what passes needs no room for words.
 */
__attribute__((noinline)) static void count_denied(struct worker *worker, const struct step *step,
                                                   const char *limit)
{
	struct slice name = step->key_name;
	char room[16];

	if (step->secret)
		name = (struct slice){
		    room, (size_t)snprintf(room, sizeof room, "#%08x",
		                           (unsigned)(step->key.hash * UINT64_C(0x9e3779b97f4a7c15) >> 32))};
	top_count(worker->shared->top, worker->index, step->key.hash, limit, name,
	          worker->turn.at.now_ns);
}

void count_step(void *context, const struct step *step)
{
	struct worker *worker = context;
	size_t metric = engine_limit_index(worker->config->engine, step->limit);

	count_decision(worker, metric, step->shadow, step->allowed, step->reason);
	if (!step->allowed && !step->shadow)
		count_denied(worker, step, worker->config->metrics[metric]->name);
}

void count_failure(struct worker *worker, const struct step *step, enum rules_failure policy)
{
	size_t metric = engine_limit_index(worker->config->engine, step->limit);

	metrics_add(&metrics_counts_of(worker->config->metrics[metric], worker->index)->failures[policy],
	            1);
}
