#include "server/run.h"

#include "rules/model.h"

void run_fail(struct worker *worker, struct work *work, int status, struct slice message)
{
	const char *copy = arena_copy(&worker->arena, message);

	run_refuse(work, status, copy ? copy : weir_strerror(status));
}

void run_turn_away(struct worker *worker, struct work *work, int status, struct slice message)
{
	run_fail(worker, work, status, message);
	work->refused = work->kind != REQUEST_LOCAL;
}

bool run_may_log(uint64_t *quiet_ns)
{
	uint64_t now_ns = os_monotonic_ns();

	if (now_ns < *quiet_ns)
		return false;
	*quiet_ns = now_ns + RUN_QUIET_NS;
	return true;
}

/* The message is freed. */
static void fail_with(struct worker *worker, struct work *work, int status, struct buffer *message)
{
	run_fail(worker, work, status,
	         message->failed ? SLICE("out of memory") : (struct slice){message->data, message->len});
	buffer_free(message);
}

void run_fail_name(struct worker *worker, struct work *work, int status, const char *expected,
                   struct slice name)
{
	struct buffer message = {0};

	buffer_printf(&message, "expected %s, found '", expected);
	buffer_add_shown(&message, (struct slice){name.data, name.len < 64 ? name.len : 64});
	buffer_add(&message, "'", 1);
	fail_with(worker, work, status, &message);
}

/* The longest part of the rule's key; NULL: it has none. */
static const struct weir_attribute *longest_part(const struct request *r,
                                                 const struct rules_rule *rule)
{
	const struct weir_attribute *longest = NULL;

	for (size_t i = 0; i < r->attribute_count; i++)
		for (size_t j = 0; j < rule->key_count; j++)
			if (strcmp(r->attributes[i].name, rule->key[j]) == 0 &&
			    (!longest || r->attributes[i].value_len > longest->value_len))
				longest = &r->attributes[i];
	return longest;
}

void run_check_rules(struct worker *worker, struct work *work, int status, const struct request *r)
{
	const struct rules_rule *rule = status == WEIR_ELONG ? work->plan.listed : NULL;
	const struct weir_attribute *part = rule ? longest_part(r, rule) : NULL;
	struct buffer message = {0};

	if (!part) {
		run_check(work, status);
		return;
	}
	buffer_printf(&message,
	              "expected a key of at most %d bytes for rule '%s', found a longer one, in which "
	              "'%s' has %zu",
	              WEIR_KEY_MAX, rule->name, part->name, part->value_len);
	fail_with(worker, work, status, &message);
}

const weir_limit *run_find_limit(struct worker *worker, struct work *work, struct slice name)
{
	const weir_limit *limit = weir_engine_limit(worker->config->engine, name.data, name.len);

	if (!limit)
		run_fail_name(worker, work, WEIR_ENOTFOUND, "the name of a limit", name);
	return limit;
}
