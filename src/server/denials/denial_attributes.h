/*
 * denial_attributes.h: chooses the attributes of a request that are kept with its denial, and shows
 * them as JSON.
 *
 * Digests stand for values that may be secrets (secret_name.h), whatever is configured. With
 * `key: digest` they also stand for the values that a rule counts by, since these may name a
 * visitor. Without a list of attributes, only the path, method and host are in clear then. /v1/key
 * answers with the digest of a value.
 */
#ifndef SERVER_DENIAL_ATTRIBUTES_H
#define SERVER_DENIAL_ATTRIBUTES_H

#include "server/requests/decider.h"

#define DENIAL_VALUE_MAX      256               /* bytes shown of a value */
#define DENIAL_ATTRIBUTES_MAX ((size_t)2 << 10) /* bytes kept of one request's attributes */

/** Makes the plan, which rules have prepared from the attributes, refer to them. */
static inline void denial_attributes_set(struct plan *plan, const struct weir_attribute *items,
                                         size_t count)
{
	/* ECOST is explained by `direct_step` */
	plan->has_attributes = plan->steps != &plan->direct_step && !plan->cost_exceeds_limit;
	if (plan->has_attributes)
		plan->attributes = (struct plan_attributes){items, count};
}

/** Whether a denial of one of the plan's steps would be kept with the i-th attribute. */
bool denial_attributes_are_kept(const struct decider *decider, const struct plan *plan, size_t i);

/** Appends the attributes that are kept with a denial of the step, as a JSON object. */
void denial_attributes_add_json(const struct decider *decider, const struct plan *plan,
                                const struct plan_step *step, struct buffer *out);

/**
 * Appends the digest of each value of which the step's key is made. So an operator who knows one of
 * several, or an address of which the key is the network, finds the denial. A rule that denies
 * without limits has no key; there these are the values by which it matches.
 */
void denial_attributes_add_values(const struct decider *decider, const struct plan *plan,
                                  const struct plan_step *step, struct buffer *out);

#endif
