/*
 * denial_list.c: answers what was denied: lists the denials that are kept (denial_sample.h), and
 * says which digest stands for a key in them.
 */
#include "server/denials/denial_list.h"

#include "base/number.h"
#include "rules/rate.h"
#include "server/denials/denial_keeper.h"
#include "server/requests/work_error.h"

#define ID_EXPECTED "id to be the 16 hexadecimal digits of a denial's id"

/* Copies a body that was rendered into the intake's memory. */
static void set_body(struct decider *decider, struct work *work, struct buffer *body,
                     struct reply *reply)
{
	char *copy = body->failed ? NULL : arena_alloc(&decider->arena, body->len + 1);

	work_set_status(work, copy ? WEIR_OK : WEIR_ENOMEM);
	if (copy) {
		memcpy(copy, body->data, body->len);
		reply->body = (struct slice){copy, body->len};
	}
	buffer_free(body);
}

/*
 * Writes the digests by which a denial of the key can be kept. A Redis may have got its secret, or
 * another one, after denials were kept, so each hash key gives one.
 */
static struct slice write_digests(const struct worker_shared *shared, struct slice key, char *out)
{
	size_t n = u64_min(digest_keys_count(&shared->digest_keys), DIGEST_KEYS_MAX);

	for (size_t i = 0; i < n; i++)
		digest_keys_write_by(&shared->digest_keys, i, key, out + i * DENIAL_DIGEST);
	if (hex_is_valid(key, DENIAL_DIGEST)) /* the caller may mean the key with this digest */
		hex_lower(key, out + n++ * DENIAL_DIGEST);
	return (struct slice){out, n * DENIAL_DIGEST};
}

void denial_list_finish(struct decider *decider, struct work *work, struct reply *reply)
{
	const struct request *request = work->full_request;
	const struct worker_shared *shared = decider->shared;
	struct denial_filter filter = {.id = request->denial_id,
	                               .key = request->key,
	                               .limit = rules_denied_name(request->limit),
	                               .rule = request->name,
	                               .count_max = request->top_count};
	char digests[(DIGEST_KEYS_MAX + 1) * DENIAL_DIGEST + 1];
	struct buffer body = {0}, escaped_key = {0};

	if (request->denial_id.data && !hex_is_valid(request->denial_id, DENIAL_ID_TEXT - 1)) {
		work_fail_name(decider, work, WEIR_EINVAL, ID_EXPECTED, request->denial_id);
		return;
	}
	if (request->since.len > 0 &&
	    !since_parse(request->since, decider->context.at.wall_ns, &filter.since_ns)) {
		work_fail_name(decider, work, WEIR_EINVAL, SINCE_EXPECTED, request->since);
		return;
	}
	if (request->until.len > 0 &&
	    !since_parse(request->until, decider->context.at.wall_ns, &filter.until_ns)) {
		work_fail_name(decider, work, WEIR_EINVAL, UNTIL_EXPECTED, request->until);
		return;
	}
	filter.key_digests = write_digests(shared, request->key, digests);
	buffer_add_json(&escaped_key, request->key);
	filter.escaped_key = (struct slice){escaped_key.data, escaped_key.len};
	denial_sample_list(shared->denials, &filter, &body);
	body.failed |= escaped_key.failed;
	buffer_free(&escaped_key);
	set_body(decider, work, &body, reply);
}

void denial_list_finish_digest(struct decider *decider, struct work *work, struct reply *reply)
{
	const struct worker_shared *shared = decider->shared;
	char digest[KEY_DIGEST_TEXT];
	struct buffer body = {0};

	digest_keys_write(&shared->digest_keys, work->full_request->key, digest);
	buffer_printf(&body, "{\"digest\":\"%s\"}", digest);
	set_body(decider, work, &body, reply);
}

void denial_list_explain_denied(struct decider *decider, const struct plan *plan,
                                struct reply *reply)
{
	const struct plan_step *denied = decider->denied_step;
	bool is_of_plan =
	    denied == &plan->direct_step ||
	    ((uintptr_t)denied - (uintptr_t)plan->steps) / sizeof *denied < plan->step_count;
	bool is_listed = reply->decision.reason == WEIR_REASON_LISTED; /* denied by a rule's answer */
	bool is_kept;

	if (is_listed && plan->answering_rule)
		denial_keeper_count_listed(decider, plan, plan->answering_rule);
	is_kept = (is_of_plan || is_listed) && decider->denial_id[0] != '\0';
	reply->explains_denial = decider->config->rules->denials.headers == RULES_YES;
	reply->denial_id = NULL;
	if (reply->explains_denial && is_kept)
		reply->denial_id = arena_copy(&decider->arena, slice_of(decider->denial_id));
	decider->denial_id[0] = '\0'; /* a later plan may have its steps at the same address */
}
