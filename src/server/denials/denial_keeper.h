/*
 * denial_keeper.h: counts each denial, and keeps a bounded number of each rule and second. The path
 * of a denial that is not kept is inlined, because most of an attack's denials are left out.
 */
#ifndef SERVER_DENIAL_KEEPER_H
#define SERVER_DENIAL_KEEPER_H

#include "server/requests/decider.h"

/* The event of the log, at most one a second and rule. Its keys are always digests. */
#define DENIAL_KEEPER_EVENT "denied"

/**
 * Adds a denial of the plan's step to the sample, and to the events of those who follow denials,
 * and logs it if no other denial counted in `counters` was logged in this second.
 */
void denial_keeper_keep(struct decider *decider, const struct plan *plan,
                        const struct plan_step *step, const char *limit,
                        struct named_counters *counters);

/*
 * The counters by which the sample of denials is bounded: those of the rule, or of the limit if the
 * request names that. A plan that waited may be of an earlier configuration, whose rules are not in
 * the newest one.
 */
static inline struct named_counters *denial_keeper_counters(const struct server_config *config,
                                                            const struct rules_rule *rule,
                                                            size_t limit_index)
{
	size_t rule_index = ((uintptr_t)rule - (uintptr_t)config->rules->rules) /
	                    sizeof config->rules->rules[0]; /* beyond the rules if it is no such rule */

	return rule_index < config->rules->rule_count ? config->rule_counters[rule_index]
	                                              : config->limit_counters[limit_index];
}

/* Keeps the denial of a step, or leaves it out if there were enough in this second. */
static inline void denial_keeper_keep_or_omit(struct decider *decider, const struct plan *plan,
                                              const struct plan_step *step, const char *limit,
                                              struct named_counters *counters)
{
	if (denial_share_admits(&counters->denials, decider->context.at.wall_ns,
	                        decider->config->rules->denials.per_second))
		denial_keeper_keep(decider, plan, step, limit, counters);
	else
		metrics_add(&decider->metrics->denials_left_out, 1);
}

/** Counts a denial of the plan's step, whose limit has that index, and keeps or leaves it out. */
static inline void denial_keeper_count(struct decider *decider, const struct plan *plan,
                                       const struct plan_step *step, size_t limit_index)
{
	const struct server_config *config = decider->config;

	if (!step->shadow) {
		decider->denied_step = step;
		decider->denial_id[0] = '\0';
	}
	if (!decider->shared->denials)
		return;
	denial_keeper_keep_or_omit(decider, plan, step, config->limit_counters[limit_index]->name,
	                           denial_keeper_counters(config, step->rule, limit_index));
}

/**
 * As denial_keeper_count, but of a rule that denies by its own answer, without limits. Sets the id
 * of the denial, but no denied step.
 */
void denial_keeper_count_listed(struct decider *decider, const struct plan *plan,
                                const struct rules_rule *rule);

#endif
