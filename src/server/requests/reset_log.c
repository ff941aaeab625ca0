/*
 * reset_log.c: logs resets of keys: the limit, the digest of the key, and the operator. The name of
 * a key may be that of a visitor, so the log has the digest, as it has for denials.
 */
#include "server/requests/reset_log.h"

#include <string.h>

#include "base/number.h"
#include "engine/engine.h"
#include "engine/table.h"
#include "server/access/users.h"

static void log_reset(struct decider *decider, const char *limit, const char *key, const char *by)
{
	log_event(decider->shared->log, LOG_INFO, "reset", {"limit", limit}, {"key", key}, {"by", by});
}

void reset_log_shown_key(struct decider *decider, const struct work *work, const char *limit,
                         struct slice shown)
{
	char key[KEY_PHASES_TEXT_MAX] = "", by[OVERRIDE_BY_MAX] = "";

	memcpy(key, shown.data, u64_min(shown.len, sizeof key - 1));
	overrides_format_by(decider->user, net_conn_peer(work->conn), by);
	log_reset(decider, limit, key, by);
}

/*
 * The sender of the work. A reset at a Redis may end after a reload that has changed the users: then
 * nobody has the number, or the user who has it now.
 */
static const struct user *sender_of(const struct decider *decider, const struct work *work)
{
	const struct users *users = decider->config->users;
	unsigned sender = work->plan.sender;

	return users && sender > 0 && sender <= users->count ? &users->items[sender - 1] : NULL;
}

/* Whether the step has no name of its key, although the key is not the empty one. */
static bool is_known_by_hash(const struct decider *decider, const struct plan_step *step)
{
	const struct store *store = decider->shared->table->store;

	return !step->key_name.data && !step->remote &&
	       step->key.hash != store_hash(store, step->limit->algo.identity, "", 0);
}

void reset_log_keys(struct decider *decider, const struct work *work)
{
	char digest[KEY_DIGEST_TEXT], by[OVERRIDE_BY_MAX] = "";

	overrides_format_by(sender_of(decider, work), net_conn_peer(work->conn), by);
	for (size_t i = 0; i < work->plan.step_count; i++) {
		const struct plan_step *step = &work->plan.steps[i];

		if (is_known_by_hash(decider, step)) /* reset_log_shown_key has logged it */
			continue;
		digest_keys_write(&decider->shared->digest_keys, step->key_name, digest);
		if (step->key_name.len == 0)
			digest[0] = '\0'; /* there is nothing to hide */
		log_reset(decider, weir_limit_name(step->limit), digest, by);
	}
}
