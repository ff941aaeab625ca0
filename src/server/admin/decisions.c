#include "server/admin/decisions.h"

#include <string.h>

#include "engine/engine.h"
#include "server/admin/key_phases.h"

void decisions_count(struct decider *decider, size_t metric, bool shadow, bool allowed,
                     enum weir_reason reason)
{
	struct metrics_counts *counts =
	    metrics_counts_of(decider->config->limit_counters[metric], decider->index);

	metrics_add(&counts->decisions[shadow][reason][allowed], 1);
}

/*
 * Shows a hash ("#" and 8 hexadecimal digits) for keys such as tokens and cookies of visitors. Not
 * inlined: requests that pass need no space for the text.
 */
__attribute__((noinline)) static void count_denied(struct decider *decider,
                                                   const struct plan_step *step, const char *limit)
{
	char text[KEY_PHASES_HASH_TEXT];
	struct slice name =
	    step->key_is_secret ? key_phases_hash_text(step->key.hash, text) : step->key_name;

	top_count_denial(decider->shared->top, decider->index, step->key.hash, limit, name,
	                 decider->context.at.now_ns);
}

void decisions_count_step(void *context, const struct plan_step *step)
{
	struct decider *decider = decider_of(context);
	size_t metric = engine_limit_index(decider->config->engine, step->limit);

	decisions_count(decider, metric, step->shadow, step->allowed, step->reason);
	if (!step->allowed && !step->shadow)
		count_denied(decider, step, decider->config->limit_counters[metric]->name);
}

void decisions_count_failure(void *context, const struct plan_step *step, enum rules_failure policy)
{
	struct decider *decider = decider_of(context);
	size_t metric = engine_limit_index(decider->config->engine, step->limit);

	metrics_add(
	    &metrics_counts_of(decider->config->limit_counters[metric], decider->index)->failures[policy], 1);
}

static void log_phase_change(struct decider *decider, const char *limit,
                             const struct key_phase *key, const struct algo_phase_change *change)
{
	enum log_level level = change->to == BREAKER_OPEN ? LOG_WARNING : LOG_INFO;
	char name[KEY_PHASES_TEXT_MAX];
	const struct log_field fields[] = {
	    {"limit", limit, 0},
	    {"key", key_phases_text(key, name), 0},
	    {"from", breaker_phase_text(change->from), 0},
	    {"to", breaker_phase_text(change->to), 0},
	    {"cause", breaker_cause_text(change->cause), 0},
	    {"by", decider->forced_by, 0},
	};

	log_write(decider->shared->log, level, "breaker_turned", fields,
	          change->cause == ALGO_BY_FORCE && decider->forced_by ? 6 : 5);
}

/*
 * Records the phase that the key has now, and fills in the changes to it. Returns how many.
 *
 * No operation changes a phase that has ended by time, so it is noticed here. The mutex is the one
 * under which an operator forces a key, so any forced phase that is seen here is recorded there.
 */
static size_t observe_phase(struct decider *decider, const struct plan_step *step,
                            struct key_phase *key, struct algo_phase_change *changes)
{
	struct decision_context context = decider->context;
	struct algo_decision outcome;
	enum breaker_phase before;

	context.phase_changed = NULL; /* otherwise engine_view would call decisions_count_phase again */
	forced_keys_lock(&decider->shared->forced);
	engine_view(&context, step->limit, key->hash, &outcome);
	key->phase = outcome.phase;
	before = key_phases_record(decider->shared->phases, key);
	forced_keys_unlock(&decider->shared->forced);
	memcpy(changes, outcome.phase_changes, sizeof outcome.phase_changes);
	if (outcome.phase_change_count == 0 && outcome.phase == BREAKER_CLOSED &&
	    (before == BREAKER_RAMP || before >= BREAKER_FORCED_OPEN))
		changes[outcome.phase_change_count++] =
		    (struct algo_phase_change){(uint8_t)before, BREAKER_CLOSED, ALGO_BY_TIME};
	return outcome.phase_change_count;
}

/* Records the phase of a key that has changed or is not known, and logs and counts the changes. */
__attribute__((noinline)) static void record_phase(struct decider *decider,
                                                   const struct plan_step *step,
                                                   const struct algo_decision *outcome)
{
	struct key_phase key = {
	    .hash = step->key.hash, .limit = step->limit->algo.identity, .phase = outcome->phase};
	size_t metric = engine_limit_index(decider->config->engine, step->limit);
	const struct named_counters *limit = decider->config->limit_counters[metric];
	struct algo_phase_change changes[ALGO_PHASE_CHANGES_MAX];
	size_t n = outcome->phase_change_count;
	char text[KEY_PHASES_HASH_TEXT];

	key_phases_set_name(&key, step->key_is_secret ? key_phases_hash_text(key.hash, text)
	                                              : step->key_name);
	memcpy(changes, outcome->phase_changes, sizeof changes);
	if (n > 0)
		key_phases_record(decider->shared->phases, &key);
	else
		n = observe_phase(decider, step, &key, changes);
	for (size_t i = 0; i < n; i++) {
		metrics_add(&metrics_counts_of(limit, decider->index)->phase_changes[changes[i].to], 1);
		log_phase_change(decider, step->limit->name, &key, &changes[i]);
	}
}

void decisions_count_phase(void *context, const struct plan_step *step,
                           const struct algo_decision *outcome)
{
	struct decider *decider = decider_of(context);

	if (outcome->phase_change_count > 0 ||
	    !key_phases_knows(decider->shared->phases, step->key.hash, outcome->phase))
		record_phase(decider, step, outcome);
}
