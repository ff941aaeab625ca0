/*
 * decisions.c: counts decisions in the metrics and in the list of the most denied keys, and logs
 * phase changes of circuit breakers (closed, open, half-open). The engine calls it for each
 * decision on a limit.
 */
#include "server/admin/decisions.h"

#include <string.h>

#include "base/number.h"
#include "engine/engine.h"
#include "engine/table.h"
#include "server/admin/key_phases.h"
#include "server/denials/denial_keeper.h"

void decisions_count(struct decider *decider, size_t index, bool shadow, bool allowed,
                     enum weir_reason reason)
{
	struct metrics_counts *counts =
	    metrics_counts_of(decider->config->limit_counters[index], decider->index);

	metrics_add(&counts->decisions[shadow][reason][allowed], 1);
}

/* The name of the step's key, or, of a secret key such as a token or cookie, its digest. */
static struct slice name_or_digest(const struct decider *decider, const struct plan_step *step,
                                   char digest[KEY_DIGEST_TEXT])
{
	const struct worker_shared *shared = decider->shared;

	if (!step->key_is_secret)
		return step->key_name;
	digest_keys_write(&shared->digest_keys, step->key_name, digest);
	return slice_of(digest);
}

/* Counts a denial of a secret key. Most have a counter already, and then need no digest. */
__attribute__((noinline)) static void
count_denied_secret(struct decider *decider, const struct plan_step *step, const char *limit)
{
	uint64_t now_ns = decider->context.at.now_ns;
	char digest[KEY_DIGEST_TEXT];

	if (!top_count_known(decider->shared->top, decider->index, step->key.hash, now_ns))
		top_count_denial(decider->shared->top, decider->index, step->key.hash, limit,
		                 name_or_digest(decider, step, digest), now_ns);
}

/* Counts a denial in the list of the most denied keys. */
static inline void count_denied(struct decider *decider, const struct plan_step *step,
                                const char *limit)
{
	if (__builtin_expect(step->key_is_secret, 0))
		count_denied_secret(decider, step, limit);
	else
		top_count_denial(decider->shared->top, decider->index, step->key.hash, limit,
		                 step->key_name, decider->context.at.now_ns);
}

/* Counts a request that names a limit and an empty key. The engine counts those of rules. */
__attribute__((noinline, cold)) static void count_empty_key(const struct plan_step *step,
                                                            struct named_counters *limit)
{
	if (!step->rule)
		atomic_fetch_add_explicit(&limit->empty_keys, 1, memory_order_relaxed);
}

void decisions_count_step(void *context, const struct plan *plan, const struct plan_step *step)
{
	struct decider *decider = decider_of(context);
	size_t index = engine_limit_index(decider->config->engine, step->limit);

	decisions_count(decider, index, step->shadow, step->allowed, step->reason);
	if (__builtin_expect(step->key_name.len == 0, 0))
		count_empty_key(step, decider->config->limit_counters[index]);
	if (step->allowed)
		return;
	if (!step->shadow)
		count_denied(decider, step, decider->config->limit_counters[index]->name);
	denial_keeper_count(decider, plan, step, index);
}

/* Counts an operation that the limit's Redis could not do, by the policy that replaced it. */
void decisions_count_failure(void *context, const struct plan_step *step, enum rules_failure policy)
{
	struct decider *decider = decider_of(context);
	size_t index = engine_limit_index(decider->config->engine, step->limit);

	metrics_add(&metrics_counts_of(decider->config->limit_counters[index], decider->index)
	                 ->failures[policy],
	            1);
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
	    {"by", decider->forced_by, 0}, /* the operator; the last field may be omitted */
	};
	size_t count = sizeof fields / sizeof *fields;
	bool has_operator = change->cause == ALGO_BY_FORCE && decider->forced_by;

	log_write(decider->shared->log, level, "breaker_turned", fields,
	          has_operator ? count : count - 1);
}

static bool is_forced(enum breaker_phase phase)
{
	return phase == BREAKER_FORCED_OPEN || phase == BREAKER_FORCED_CLOSED;
}

/*
 * Reads the key's phase from the table again, records it, and fills in the changes that led to it.
 * Returns how many.
 *
 * A ramp or a force ends by time without any operation that changes the phase; the difference to
 * the phase recorded before shows it here. An operator forces a key under the same mutex: otherwise
 * its older phase, read here, could be recorded after the forced one.
 */
static size_t record_viewed_phase(struct decider *decider, const struct plan_step *step,
                                  struct key_phase *key, struct algo_phase_change *changes)
{
	struct decision_context context = decider->context;
	struct algo_decision decision;
	enum breaker_phase recorded_before;
	bool ended_by_time;

	context.breaker_ran = NULL; /* or engine_view would call decisions_count_phase again */
	forced_keys_lock(&decider->shared->forced);
	engine_view(&context, step->limit, key->hash, &decision);
	key->phase = decision.phase;
	recorded_before = key_phases_record(decider->shared->phases, key);
	forced_keys_unlock(&decider->shared->forced);
	memcpy(changes, decision.phase_changes, sizeof decision.phase_changes);
	ended_by_time = decision.phase == BREAKER_CLOSED &&
	                (recorded_before == BREAKER_RAMP || is_forced(recorded_before));
	if (decision.phase_change_count == 0 && ended_by_time)
		changes[decision.phase_change_count++] =
		    (struct algo_phase_change){(uint8_t)recorded_before, BREAKER_CLOSED, ALGO_BY_TIME};
	return decision.phase_change_count;
}

/*
 * Whether a permit has named the step's key and it may be secret: a permit has no rule. A key that
 * is recorded by its name was named in a request.
 */
static bool may_be_secret(const struct decider *decider, const struct plan_step *step)
{
	bool is_of_permit = step->charge_ends_ns != 0 && !step->rule;

	return is_of_permit && step->limit->has_secret_keys &&
	       !key_phases_has_name(decider->shared->phases, step->key.hash);
}

/* Sets the name of the step's key, or its digest. A permit may name a key only by its hash. */
static void set_key_text(const struct decider *decider, const struct plan_step *step,
                         struct key_phase *key)
{
	const struct store *store = decider->shared->table->store;
	bool is_secret = step->key_is_secret || may_be_secret(decider, step);
	char digest[KEY_DIGEST_TEXT];

	if (step->key_name.len > 0 && is_secret) {
		digest_keys_write(&decider->shared->digest_keys, step->key_name, digest);
		key_phases_set_text(key, KEY_TEXT_DIGEST, slice_of(digest));
	} else if (step->key_name.len > 0)
		key_phases_set_text(key, KEY_TEXT_NAME, step->key_name);
	else if (key->hash == store_hash(store, key->limit, "", 0))
		key_phases_set_text(key, KEY_TEXT_NAME, SLICE("")); /* a key that is empty */
}

/* Records the phase of a key that has changed or is new here, and logs and counts the changes. */
__attribute__((noinline)) static void record_and_log_phase(struct decider *decider,
                                                           const struct plan_step *step,
                                                           const struct algo_decision *decision)
{
	struct key_phase key = {
	    .hash = step->key.hash, .limit = step->limit->algo.identity, .phase = decision->phase};
	size_t index = engine_limit_index(decider->config->engine, step->limit);
	const struct named_counters *limit = decider->config->limit_counters[index];
	struct algo_phase_change changes[ALGO_PHASE_CHANGES_MAX];
	size_t n = decision->phase_change_count;

	set_key_text(decider, step, &key);
	memcpy(changes, decision->phase_changes, sizeof changes);
	if (n > 0)
		key_phases_record(decider->shared->phases, &key);
	else
		n = record_viewed_phase(decider, step, &key, changes);
	for (size_t i = 0; i < n; i++) {
		metrics_add(&metrics_counts_of(limit, decider->index)->phase_changes[changes[i].to], 1);
		log_phase_change(decider, step->limit->name, &key, &changes[i]);
	}
}

/* Called for each decision on a circuit breaker; most find the recorded phase and do nothing. */
void decisions_count_phase(void *context, const struct plan_step *step,
                           const struct algo_decision *decision)
{
	struct decider *decider = decider_of(context);

	if (decision->phase_change_count > 0 ||
	    !key_phases_knows(decider->shared->phases, step->key.hash, decision->phase))
		record_and_log_phase(decider, step, decision);
}
