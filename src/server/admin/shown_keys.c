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

/*
 * The text as lists show it, if it has the form of a text that stands for a key; otherwise its data
 * is NULL. `lower` has memory for it.
 */
static struct slice shown_form(struct slice text, char lower[KEY_DIGEST_TEXT])
{
	if (shown_keys_is_digest(text) || is_hash(text))
		return hex_lower(text, lower);
	return is_truncated_name(text) ? text : (struct slice){NULL, 0};
}

#define SEVERAL_KEYS "the name of a key, because several keys are shown like this"
#define UNKNOWN_KEY                                                                                \
	"the name of a key, because this text stands for a key that can't be found by it"

/*
 * Finds the keys that are shown as this text: copies one to *found and returns how many there are,
 * without `named`, the key of this name. Sets *is_name if that is known, too.
 */
static size_t find_shown(const struct decider *decider, const weir_limit *limit, struct slice text,
                         const struct key_phase *named, struct key_phase *found, bool *is_name)
{
	bool has_phases = algo_has_phases(&limit->algo);
	size_t n = 0;

	*found = (struct key_phase){.limit = limit->algo.identity, .text_kind = KEY_TEXT_DIGEST};
	*is_name = has_phases && key_phases_has_name(decider->shared->phases, named->hash);
	if (has_phases)
		n = find_with_phase(decider, limit->algo.identity, text, found);
	if (n == 0 && shown_keys_is_digest(text) &&
	    top_find(decider->shared->top, weir_limit_name(limit), text, &found->hash)) {
		key_phases_set_text(found, KEY_TEXT_DIGEST, text);
		*is_name = *is_name || found->hash == named->hash;
		n = found->hash == named->hash ? 0 : 1;
	}
	return n;
}

const char *shown_keys_find(const struct decider *decider, const weir_limit *limit,
                            struct slice text, struct shown_key *out)
{
	const struct weir_table *table = decider->shared->table;
	struct key_phase *key = &out->key, found;
	char lower[KEY_DIGEST_TEXT];
	bool is_name;
	size_t n;

	out->name = text.data ? text : SLICE("");
	*key = (struct key_phase){
	    .hash = store_hash(table->store, limit->algo.identity, text.data, text.len),
	    .limit = limit->algo.identity};
	key_phases_set_text(key, KEY_TEXT_NAME, text);
	text = shown_form(text, lower);
	if (!text.data)
		return NULL;
	n = find_shown(decider, limit, text, key, &found, &is_name);
	if (n + is_name > 1)
		return SEVERAL_KEYS;
	if (is_name)
		return NULL;
	if (n == 1 && !engine_remote_store(table, limit)) {
		*out = (struct shown_key){found, {NULL, 0}};
		return NULL;
	}
	if (n == 1 || (algo_has_phases(&limit->algo) && is_hash(text)) ||
	    is_listed_digest(decider, limit, text))
		return UNKNOWN_KEY;
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

void shown_keys_set_peek(struct decider *decider, struct work *work, const weir_limit *limit,
                         struct slice text)
{
	struct key_phase named = {.hash = work->plan.direct_step.key.hash}, found;
	bool is_remote = work->plan.direct_step.remote, is_name;
	char lower[KEY_DIGEST_TEXT];
	struct slice shown = shown_form(text, lower);
	size_t n;

	if (!shown.data || (!is_remote && engine_has_use(&decider->context, &work->plan)))
		return;
	n = find_shown(decider, limit, shown, &named, &found, &is_name);
	if (n + is_name > 1)
		work_fail_name(decider, work, WEIR_EINVAL, SEVERAL_KEYS, text);
	else if (n == 1 && is_remote)
		work_fail_name(decider, work, WEIR_EINVAL, UNKNOWN_KEY, text);
	else if (n == 1)
		work_set_status(work,
		                engine_set_direct_hash(decider->shared->table, found.hash, &work->plan));
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
