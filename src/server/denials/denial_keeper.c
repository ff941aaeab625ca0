/* denial_keeper.c: adds the denials that are to be kept to the sample of the server. */
#include "server/denials/denial_keeper.h"

#include <string.h>

#include "base/number.h"
#include "engine/engine.h"
#include "server/denials/denial_attributes.h"

/* The text that stands for the step's key, which is in `digest` unless its name may be shown. */
static struct slice key_to_show(const struct decider *decider, const struct plan_step *step,
                                char digest[KEY_DIGEST_TEXT])
{
	const struct worker_shared *shared = decider->shared;
	bool shows_name = decider->config->rules->denials.key == RULES_DENIAL_FULL;

	if (shows_name && !step->key_is_secret)
		return (struct slice){step->key_name.data, u64_min(step->key_name.len, DENIAL_KEY_MAX)};
	key_digest_write(&shared->permit_secrets, engine_secret(shared->table), step->key_name, digest);
	return slice_of(digest);
}

void denial_keeper_keep(struct decider *decider, const struct plan *plan,
                        const struct plan_step *step, const char *limit)
{
	char digest[KEY_DIGEST_TEXT], id[DENIAL_ID_TEXT];
	struct buffer attributes = {0};
	struct denial denial = {
	    .time_ns = decider->context.at.wall_ns,
	    .rule = step->rule ? step->rule->name : NULL,
	    .limit = limit,
	    .key = key_to_show(decider, step, digest),
	    .reason = step->reason,
	    .retry_after_ns = step->refused && !step->shadow ? step->retry_after_ns : 0,
	    .shadow = step->shadow,
	};

	denial_attributes_add_json(decider, plan, step, &attributes);
	if (!attributes.failed)
		denial.attributes = (struct slice){attributes.data, attributes.len};
	if (!denial_sample_add(decider->shared->denials, &denial, id))
		metrics_add(&decider->metrics->denials_left_out, 1);
	else if (!step->shadow)
		memcpy(decider->denial_id, id, sizeof id);
	buffer_free(&attributes);
}
