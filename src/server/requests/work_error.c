/*
 * work_error.c: sets the error that answers a request, with a message that says what was expected
 * and found. A work is a request that is being processed.
 */
#include "server/requests/work_error.h"

#include "base/error.h"
#include "base/text/misspelling.h"
#include "rules/model.h"

#define NAME_SHOWN_MAX     64  /* bytes of a name in a message */
#define COMPARED_NAMES_MAX 500 /* in an intake */

void work_fail(struct decider *decider, struct work *work, int status, struct slice message)
{
	const char *copy = arena_copy(&decider->arena, message);

	work_set_error(work, status, copy ? copy : weir_strerror(status));
}

/* A refused work skips all its handlers: only the error is answered. */
void work_reject(struct decider *decider, struct work *work, int status, struct slice message)
{
	work_fail(decider, work, status, message);
	work->refused = work->kind != REQUEST_LOCAL;
}

void work_reject_limit(struct decider *decider, struct work *work, const weir_limit *limit)
{
	struct weir_error error;

	error_set(&error, WEIR_EPERM, "expected a limit of user '%s', found '%s'",
	          decider->user->rule->name, limit->name);
	work_reject(decider, work, WEIR_EPERM, slice_of(error.message));
}

/* Fails the work with the text of a buffer, and frees the buffer. */
static void fail_with_buffer(struct decider *decider, struct work *work, int status,
                             struct buffer *message)
{
	work_fail(decider, work, status,
	          message->failed ? SLICE("out of memory")
	                          : (struct slice){message->data, message->len});
	buffer_free(message);
}

void work_fail_name(struct decider *decider, struct work *work, int status, const char *expected,
                    struct slice name)
{
	struct buffer message = {0};

	buffer_printf(&message, "expected %s, found '", expected);
	buffer_add_printable(&message, (struct slice){name.data, u64_min(name.len, NAME_SHOWN_MAX)});
	buffer_add(&message, "'", 1);
	fail_with_buffer(decider, work, status, &message);
}

static uint64_t rounded_up_ms(uint64_t ns)
{
	return (ns + NS_PER_MS - 1) / NS_PER_MS;
}

void work_fail_cost(struct decider *decider, struct work *work)
{
	const struct plan *plan = &work->plan;
	const struct weir_limit *limit = plan->direct_step.limit;
	/* the request may charge the key several times: it waits as long as the last charge has to */
	uint64_t total_cost = plan->direct_step.total_cost;
	uint64_t last_cost = u64_min(total_cost, u64_max(plan->cost, 1));
	uint64_t earlier_cost = total_cost - last_cost;
	uint64_t wait_ns = plan->max_wait_ns == WEIR_ZERO ? 0 : plan->max_wait_ns;
	struct weir_error error;

	if (total_cost > limit->algo.quota)
		error_set(&error, WEIR_ECOST, "expected a cost of at most %llu for limit '%s', found %llu",
		          (unsigned long long)limit->algo.quota, limit->name,
		          (unsigned long long)total_cost);
	else
		error_set(
		    &error, WEIR_ECOST,
		    "expected a wait of at least %llu ms for a cost of %llu of limit '%s', found %llu ms",
		    (unsigned long long)rounded_up_ms(
		        algo_least_wait_ns(&limit->algo, last_cost, earlier_cost)),
		    (unsigned long long)total_cost, limit->name, (unsigned long long)(wait_ns / NS_PER_MS));
	work_fail(decider, work, WEIR_ECOST, slice_of(error.message));
}

/* Returns the attribute that makes the rule's key so long, or NULL. */
static const struct weir_attribute *longest_key_part(const struct request *r,
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

/* Explains errors of the rules: a limit that is not permitted, an impossible cost, a long key. */
void work_set_rules_status(struct decider *decider, struct work *work, int status,
                           const struct request *r)
{
	/* after ELONG the plan names the rule whose key is too long */
	const struct rules_rule *rule = status == WEIR_ELONG ? work->plan.answering_rule : NULL;
	const struct weir_attribute *part = rule ? longest_key_part(r, rule) : NULL;
	struct buffer message = {0};

	if (status == WEIR_EPERM) {
		work_reject_limit(decider, work, work->plan.direct_step.limit);
		return;
	}
	if (status == WEIR_ECOST) {
		work_fail_cost(decider, work);
		return;
	}
	if (!part) {
		work_set_status(work, status);
		return;
	}
	buffer_printf(&message,
	              "expected a key of at most %d bytes for rule '%s', found a longer one, in which "
	              "'%s' has %zu",
	              WEIR_KEY_MAX, rule->name, part->name, part->value_len);
	fail_with_buffer(decider, work, status, &message);
}

/*
 * Returns the limit that the sender may use and whose name is similar, or NULL. A comparison takes
 * up to 2 us, so an intake has only some: the sender of unknown names delays no others.
 */
static const weir_limit *find_similar_limit(struct decider *decider, struct slice name)
{
	const struct weir_engine *engine = decider->config->engine;
	size_t n = engine_limit_count(engine);

	if (decider->comparing_intake != decider->pages.intake_number)
		decider->compared_names = 0;
	decider->comparing_intake = decider->pages.intake_number;
	for (size_t i = 0; i < n && decider->compared_names < COMPARED_NAMES_MAX; i++) {
		const weir_limit *limit = engine_limit_at(engine, i);
		const struct user *user = decider->user;

		decider->compared_names++;
		if (is_misspelling(name, slice_of(limit->name)) &&
		    (!user || !user->limits || user_may_use(user, i)))
			return limit;
	}
	return NULL;
}

static void fail_unknown_limit(struct decider *decider, struct work *work, struct slice name)
{
	const weir_limit *similar = find_similar_limit(decider, name);
	struct buffer message = {0};

	buffer_add_text(&message, "expected the name of a limit, found '");
	buffer_add_printable(&message, (struct slice){name.data, u64_min(name.len, NAME_SHOWN_MAX)});
	buffer_add(&message, "'", 1);
	if (similar)
		buffer_printf(&message, ": did you mean '%s'?", similar->name);
	fail_with_buffer(decider, work, WEIR_ENOTFOUND, &message);
}

const weir_limit *work_find_limit(struct decider *decider, struct work *work, struct slice name)
{
	const weir_limit *limit = weir_engine_limit(decider->config->engine, name.data, name.len);

	if (!limit)
		fail_unknown_limit(decider, work, name);
	return limit;
}
