/* denial_keeper.c: adds the denials that are to be kept to the sample of the server. */
#include "server/denials/denial_keeper.h"

#include <string.h>

#include "base/number.h"
#include "engine/engine.h"
#include "server/denials/denial_attributes.h"

/* A request that names a limit may have such a key as a rule makes for it of secrets. */
static bool has_secret_key(const struct plan_step *step)
{
	return step->key_is_secret || (!step->rule && step->limit->has_secret_keys);
}

/* The name of the step's key if it may be shown, otherwise its digest. */
static struct slice key_to_show(const struct decider *decider, const struct plan_step *step,
                                const char *digest)
{
	bool shows_name = decider->config->rules->denials.key == RULES_DENIAL_FULL;

	if (shows_name && !has_secret_key(step))
		return (struct slice){step->key_name.data, u64_min(step->key_name.len, DENIAL_KEY_MAX)};
	return slice_of(digest);
}

static void log_denial(struct decider *decider, const struct denial *denial, const char *digest,
                       const char *id)
{
	log_event(decider->shared->log, LOG_INFO, DENIAL_KEEPER_EVENT,
	          {"rule", denial->rule ? denial->rule : ""}, {"limit", denial->limit}, {"key", digest},
	          {"reason", weir_reason_text(denial->reason)},
	          {"retry_after_ms", .number = ceil_div(denial->retry_after_ns, NS_PER_MS)},
	          {"shadow", denial->shadow ? "yes" : "no"}, {"id", id});
}

/* Adds the denial to the sample, to its file, and to the events if a client follows them. */
static bool keep_and_send(struct decider *decider, const struct denial *denial,
                          char id[DENIAL_ID_TEXT])
{
	struct worker_shared *shared = decider->shared;
	bool is_followed = shared->denial_events && events_followers(shared->denial_events) > 0;
	struct buffer json = {0};
	bool wants_json = is_followed || shared->denial_file;
	bool stored = denial_sample_add(shared->denials, denial, id, wants_json ? &json : NULL);

	if (is_followed && json.len > 0)
		events_add(shared->denial_events, "denial", (struct slice){json.data, json.len});
	if (shared->denial_file && json.len > 0)
		denial_file_add(shared->denial_file, (struct slice){json.data, json.len}, denial->values);
	buffer_free(&json);
	return stored;
}

void denial_keeper_keep(struct decider *decider, const struct plan *plan,
                        const struct plan_step *step, const char *limit,
                        struct named_counters *counters)
{
	const struct worker_shared *shared = decider->shared;
	char digest[KEY_DIGEST_TEXT], id[DENIAL_ID_TEXT];
	struct buffer attributes = {0}, values = {0};
	struct denial denial = {
	    .time_ns = decider->context.at.wall_ns,
	    .rule = step->rule ? step->rule->name : NULL,
	    .limit = limit,
	    .reason = step->reason,
	    .retry_after_ns = step->refused ? step->retry_after_ns : 0,
	    .shadow = step->shadow,
	};

	digest_keys_write(&shared->digest_keys, step->key_name, digest);
	if (step->key_name.len == 0)
		digest[0] = '\0'; /* there is nothing to hide */
	denial.key = key_to_show(decider, step, digest);
	denial_attributes_add_json(decider, plan, step, &attributes);
	if (!attributes.failed)
		denial.attributes = (struct slice){attributes.data, attributes.len};
	denial_attributes_add_values(decider, plan, step, &values);
	if (!values.failed)
		denial.values = (struct slice){values.data, values.len};
	if (!keep_and_send(decider, &denial, id))
		metrics_add(&decider->metrics->denials_left_out, 1);
	else if (!step->shadow)
		memcpy(decider->denial_id, id, sizeof id);
	if (denial_share_admits(&counters->logged_denials, denial.time_ns, 1))
		log_denial(decider, &denial, digest, id);
	buffer_free(&attributes);
	buffer_free(&values);
}

void denial_keeper_count_listed(struct decider *decider, const struct plan *plan,
                                const struct rules_rule *rule)
{
	const struct server_config *config = decider->config;
	const struct plan_step step = {.rule = rule,
	                               .key_name = SLICE(""),
	                               .retry_after_ns = ALGO_RETRY_DEFAULT_NS,
	                               .refused = true,
	                               .reason = WEIR_REASON_LISTED};

	decider->denial_id[0] = '\0';
	if (decider->shared->denials)
		denial_keeper_keep_or_omit(
		    decider, plan, &step, "",
		    denial_keeper_counters(config, rule, config->no_limit_counters_index));
}
