/* tally.c: counts the decisions of one limit in a simulation, for the report. */
#include "simulate/report/tally.h"

#include <stdlib.h>
#include <string.h>

#include "algo/outcomes/breaker_state.h"

int tally_open(struct tally *tally, const struct weir_limit *limit,
               const struct rules_limit *declared, uint64_t keys_max)
{
	tally->limit = limit;
	tally->declared = declared;
	tally->burst = burst_open(limit->algo.period_ns, keys_max);
	hits_open(&tally->hits, keys_max);
	tally->top = top_open(1);
	if (algo_has_phases(&limit->algo) && !(tally->phases = calloc(1, sizeof *tally->phases)))
		return WEIR_ENOMEM;
	return tally->burst && tally->top ? WEIR_OK : WEIR_ENOMEM;
}

void tally_close(struct tally *tally)
{
	burst_close(tally->burst);
	hits_close(&tally->hits);
	top_close(tally->top);
	if (tally->phases)
		phases_close(tally->phases);
	free(tally->phases);
}

static void set_worst(struct tally_worst *worst, uint64_t granted, uint64_t now_ns,
                      struct slice key)
{
	worst->granted = granted;
	worst->at_ns = now_ns;
	worst->key_len = key.len;
	if (key.len > 0)
		memcpy(worst->key, key.data, u64_min(key.len, sizeof worst->key));
}

static void count_wait(struct tally_waits *waits, uint64_t wait_ns)
{
	waits->waited += wait_ns > 0;
	waits->sum_ns += (double)wait_ns;
	histogram_count(&waits->waits, wait_ns, 1);
}

/* A request that waits counts in the period and the interval in which it passes. */
void tally_count(struct tally *tally, const struct plan_step *step, uint64_t cost, uint64_t now_ns,
                 const struct weir_decision *decision)
{
	bool allowed = decision->allowed;
	uint64_t wait_ns =
	    allowed && cost > 0 ? decision->wait_ns : 0; /* a request of cost 0 does not wait */
	uint64_t pass_ns = now_ns + wait_ns;
	/* To the key, in the period that ends at pass_ns. Exact only if it exceeds the worst so far. */
	uint64_t granted_in_period = burst_add(tally->burst, step->key.hash, pass_ns,
	                                       allowed ? cost : 0, tally->worst_period.granted);

	hits_add(&tally->hits, step->key.hash, !allowed);
	timeline_add(&tally->timeline, now_ns,
	             (struct timeline_counts){
	                 .asked = 1, .passed = allowed && wait_ns == 0, .denied = !allowed});
	if (allowed) {
		tally->allowed++;
		if (decision->paced && cost > 0)
			count_wait(&tally->waits, wait_ns);
		if (wait_ns > 0)
			timeline_add(&tally->timeline, pass_ns, (struct timeline_counts){.passed = 1});
		if (granted_in_period > tally->worst_period.granted)
			set_worst(&tally->worst_period, granted_in_period, pass_ns, step->key_name);
		return;
	}
	tally->denied++;
	histogram_count(&tally->retry_after, decision->retry_after_ns, 1);
	top_count_denial(tally->top, 0, step->key.hash, tally->limit->name, step->key_name,
	                 TALLY_TOP_TIME_NS);
}

void tally_refuse(struct tally *tally, const struct plan_step *step)
{
	tally->refused++;
	hits_add(&tally->hits, step->key.hash, true);
}

/* Rates the end of a request as the limit does. */
static enum tally_end rate_end(const struct algo_limit *limit, unsigned outcome,
                               uint64_t latency_ns)
{
	struct breaker_result result = {.failed = outcome != WEIR_OUTCOME_SUCCESS,
	                                .ignored = outcome == WEIR_OUTCOME_IGNORED};

	if (outcome >= WEIR_OUTCOME_COUNT)
		return TALLY_NEITHER;
	if (limit->record == ALGO_RECORD_BREAKER)
		result = breaker_result_of(&limit->breaker, (enum weir_outcome)outcome, latency_ns);
	return result.ignored ? TALLY_NEITHER : result.failed || result.slow ? TALLY_BAD : TALLY_GOOD;
}

void tally_count_end(struct tally *tally, bool passed, unsigned outcome, uint64_t latency_ns)
{
	uint64_t *ends = passed ? tally->ends_of_passed : tally->ends_of_denied;

	ends[rate_end(&tally->limit->algo, outcome, latency_ns)]++;
}
