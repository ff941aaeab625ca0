/* shown_keys.c: finds a key by the text that lists show for it (shown_keys.h). */
#include "server/admin/shown_keys.h"

#include <string.h>

#include "base/number.h"
#include "engine/engine.h"
#include "engine/table.h"
#include "server/requests/reset_log.h"
#include "server/requests/work_error.h"

#define HASH_DIGITS 8
#define ELLIPSIS    "…"

bool shown_keys_is_digest(struct slice text)
{
	return hex_is_valid(text, KEY_DIGEST_TEXT - 1);
}

static bool is_hash(struct slice text)
{
	return slice_skip(&text, SLICE("#")) && hex_is_valid(text, HASH_DIGITS);
}

static bool is_truncated_name(struct slice text)
{
	size_t end = strlen(ELLIPSIS);

	return text.len == KEY_PHASES_NAME_MAX + end &&
	       memcmp(text.data + KEY_PHASES_NAME_MAX, ELLIPSIS, end) == 0;
}

/* Counts the keys with phases that are shown so, and copies one of them. */
static size_t find_with_phase(const struct decider *decider, uint64_t limit, struct slice text,
                              struct key_phase *key)
{
	struct worker_shared *shared = decider->shared;
	size_t n = key_phases_find_shown(shared->phases, limit, text, key);

	return n > 0 ? n : forced_keys_find_shown(&shared->forced, limit, text, key);
}

/* Whether the list of denials shows this digest for a key of the limit. */
static bool is_listed_digest(const struct decider *decider, const weir_limit *limit,
                             struct slice text)
{
	bool shows_digests = decider->config->rules->denials.key != RULES_DENIAL_FULL;

	return shows_digests && shown_keys_is_digest(text) && decider->shared->denials &&
	       denial_sample_has_key(decider->shared->denials, slice_of(weir_limit_name(limit)), text);
}

const char *shown_keys_find(const struct decider *decider, const weir_limit *limit,
                            struct slice text, struct shown_key *out)
{
	const struct weir_table *table = decider->shared->table;
	struct key_phase found = {.limit = limit->algo.identity, .text_kind = KEY_TEXT_DIGEST};
	bool has_phases = algo_has_phases(&limit->algo), is_name;
	struct key_phase *key = &out->key;
	char lower[KEY_DIGEST_TEXT];
	size_t n = 0;

	out->name = text.data ? text : SLICE("");
	*key = (struct key_phase){
	    .hash = store_hash(table->store, limit->algo.identity, text.data, text.len),
	    .limit = limit->algo.identity};
	key_phases_set_text(key, KEY_TEXT_NAME, text);
	if (shown_keys_is_digest(text) || is_hash(text))
		text = hex_lower(text, lower);
	else if (!is_truncated_name(text))
		return NULL;
	is_name = has_phases && key_phases_has_name(decider->shared->phases, key->hash);
	if (has_phases)
		n = find_with_phase(decider, limit->algo.identity, text, &found);
	if (n == 0 && shown_keys_is_digest(text) &&
	    top_find(decider->shared->top, weir_limit_name(limit), text, &found.hash)) {
		key_phases_set_text(&found, KEY_TEXT_DIGEST, text);
		is_name = is_name || found.hash == key->hash;
		n = found.hash == key->hash ? 0 : 1;
	}
	if (n + is_name > 1)
		return "the name of a key, because several keys are shown like this";
	if (is_name)
		return NULL;
	if (n == 1 && !engine_remote_store(table, limit)) {
		*out = (struct shown_key){found, {NULL, 0}};
		return NULL;
	}
	if (n == 1 || (has_phases && is_hash(text)) || is_listed_digest(decider, limit, text))
		return "the name of a key, because this text stands for a key that can't be found by it";
	return NULL;
}

void shown_keys_set_reset(struct decider *decider, struct work *work, const weir_limit *limit,
                          struct slice text)
{
	struct shown_key shown;
	const char *expected = shown_keys_find(decider, limit, text, &shown);

	if (expected) {
		work_fail_name(decider, work, WEIR_EINVAL, expected, text);
		return;
	}
	if (shown.name.data)
		return;
	work_set_status(work,
	                engine_set_direct_hash(decider->shared->table, shown.key.hash, &work->plan));
	if (work->status == WEIR_OK)
		reset_log_shown_key(decider, work, weir_limit_name(limit), text);
}

void shown_keys_refuse_reset(struct decider *decider, struct work *work)
{
	work_fail_name(decider, work, WEIR_EINVAL,
	               "the name of a key, because this looks like a digest, and no key that is known "
	               "has it",
	               work->plan.direct_step.key_name);
}

void shown_keys_check_reset(struct decider *decider, struct work *work)
{
	const struct plan *plan = &work->plan;
	const struct plan_step *step = &plan->direct_step;

	if (work->kind != REQUEST_LIMIT || plan->stage != PLAN_PREPARED || step->remote)
		return;
	if (shown_keys_is_digest(step->key_name) && !step->limit->algo.algorithm->draws &&
	    !engine_has_use(&decider->context, plan))
		shown_keys_refuse_reset(decider, work);
}
