/*
 * submit.c: makes operations of a plan's steps at remote stores, and submits them in lists, of
 * which a store performs each in order.
 *
 * A refund by permit goes in a list behind a *mark*: the store makes the mark once only, and
 * withholds the refund if it exists already.
 */
#include "engine/remote/submit.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/number.h"
#include "engine/plan/permits.h"

#define MARK_NAME_SIZE  (64 + sizeof ":spent:" + 16) /* of a limit, and the permit */
#define MARK_LIFE_MAX_S (UINT64_C(365) * 24 * 3600)
#define SPARES_MAX      2048

/*
 * Marks a charge of a permit as spent. The mark is a token bucket of one token, with a key of its
 * own beside the charge's key, so that the store can consume the token and refund the charge in one
 * call. The token returns when the charge has ended.
 */
struct mark {
	struct algo_limit limit;
	char name[MARK_NAME_SIZE];
};

struct submission {
	struct plan *plan;
	struct submit_spares *spares; /* the free list that it returns to, or NULL if it is freed */
	struct submission *next_spare;
	void (*ready)(void *context, struct plan *plan);
	void *context;
	struct weir_decision decision; /* so far */
	uint32_t pending;              /* operations at a store, plus one while others are submitted */
	uint32_t count;                /* operations not yet returned by submit_results */
	uint32_t mark_count;
	struct mark *marks;
	struct submitted steps[];
};

/*
 * Returns true for the last of the operations. Release and acquire: the thread that ends it sees
 * the results of all.
 */
static bool end_operation(struct submission *submission)
{
	return __atomic_sub_fetch(&submission->pending, 1, __ATOMIC_ACQ_REL) == 0;
}

/* The stores call this, from any thread, when an operation is completed. */
static void complete(struct store_operation *operation)
{
	struct submission *submission = ((struct submitted *)operation)->submission;

	if (end_operation(submission))
		submission->ready(submission->context, submission->plan);
}

/* A refund by permit may need a mark for each step, which is an operation of its own. */
static bool refunds_by_permit(const struct plan *plan)
{
	return algo_op_releases(plan->op) && plan->permit.id != 0;
}

static size_t operation_capacity(const struct plan *plan)
{
	return refunds_by_permit(plan) ? 2 * (size_t)plan->step_count : plan->step_count;
}

size_t submit_size(const struct plan *plan)
{
	return sizeof(struct submission) + operation_capacity(plan) * sizeof(struct submitted) +
	       (refunds_by_permit(plan) ? plan->step_count * sizeof(struct mark) : 0);
}

/* Most plans have one step, and an iteration has many plans, so their memory is reused. */
static struct submission *reuse_or_allocate(const struct decision_context *context,
                                            const struct plan *plan)
{
	struct submit_spares *spares = operation_capacity(plan) == 1 ? context->spares : NULL;
	struct submission *submission = spares ? spares->first : NULL;

	if (submission) {
		spares->first = submission->next_spare;
		spares->count--;
	} else {
		submission = malloc(submit_size(plan));
	}
	if (submission)
		submission->spares = spares;
	return submission;
}

/* Gives the plan an empty submission. Returns false if there is no memory. */
bool submit_open(const struct decision_context *context, struct plan *plan)
{
	struct submission *submission = plan->submission;

	if (!submission)
		submission = reuse_or_allocate(context, plan);
	if (!submission)
		return false;
	submission->marks = (struct mark *)&submission->steps[operation_capacity(plan)];
	submission->mark_count = 0;
	submission->plan = plan;
	submission->ready = context->plan_ready;
	submission->context = context->owner;
	submission->count = 0;
	plan->submission = submission;
	return true;
}

/* Returns the last operation of the store's common list, to append another, or NULL. */
static struct submitted *last_of_list(struct submission *submission, const struct store *store)
{
	for (uint32_t i = submission->count; i > 0; i--) {
		struct submitted *submitted = &submission->steps[i - 1];

		if (submitted->operation.step.store == store && !submitted->has_own_list)
			return submitted;
	}
	return NULL;
}

/*
 * Appends an operation for the step to the list whose last operation is `before`, or begins a list
 * if that is NULL. `all_or_none`: the store charges nothing of a list of which an operation is
 * denied. A single operation needs no such flag: it gets the flag when another follows.
 *
 * A store client may answer a peek that explains a denial from its cache of denials, but not once
 * shadow steps have charged the key.
 */
static struct submitted *append_operation(const struct decision_context *context, struct plan *plan,
                                          struct plan_step *step, const struct algo_call *call,
                                          struct submitted *before, bool all_or_none)
{
	struct submission *submission = plan->submission;
	struct store *store = engine_remote_store(context->table, step->limit);
	struct submitted *submitted = &submission->steps[submission->count++];

	*submitted = (struct submitted){
	    .operation = {.step = {store, algo_current(&step->limit->algo), step->key, *call,
	                           context->at},
	                  .limit_name = step->limit->name,
	                  .key_name = step->key_name,
	                  .is_all_or_nothing = all_or_none && before,
	                  .explains_denial = plan->stage == PLAN_EXPLAIN && !plan->decides_every_step,
	                  .skips_denial_cache = plan->stage == PLAN_EXPLAIN_SHADOWED,
	                  .done = complete},
	    .submission = submission,
	    .step = step,
	    .follows_another = before != NULL,
	};
	if (before) {
		before->operation.next = &submitted->operation;
		before->operation.is_all_or_nothing = all_or_none;
	}
	return submitted;
}

void submit_step(const struct decision_context *context, struct plan *plan, struct plan_step *step,
                 const struct algo_call *call, bool all_or_none)
{
	struct store *store = engine_remote_store(context->table, step->limit);

	append_operation(context, plan, step, call, last_of_list(plan->submission, store), all_or_none);
}

/*
 * Returns the permit's id, changed for each further charge of the same limit and key: a request by
 * several rules may charge one key more than once.
 */
static uint64_t mark_id(const struct plan *plan, const struct plan_step *step)
{
	uint64_t earlier_charges = 0;

	for (const struct plan_step *other = plan->steps; other < step; other++)
		earlier_charges += other->limit == step->limit && other->key.hash == step->key.hash;
	return plan->permit.id ^ earlier_charges * UINT64_C(0x9e3779b97f4a7c15);
}

/*
 * How long a state of the limit lives at most. farthest_ns adds what clocks may differ by, except
 * in a limit of the calendar, which has a cache of its window.
 */
static uint64_t longest_state_ns(const struct algo_limit *limit)
{
	return algo_has_calendar(limit) ? limit->farthest_ns : limit->farthest_ns - ALGO_SKEW_NS;
}

/*
 * Makes the mark of a charge. Returns false if the limit is impossible. The mark lives until the
 * charge ends, and longer by the difference that clocks may have (PERMITS_CLOCKS_NS), or by the
 * limit's longest state if that is less. So each mark has another period, which its value must say,
 * as that of an ad-hoc limit.
 */
static bool open_mark(const struct decision_context *context, const struct plan_step *step,
                      uint64_t id, struct mark *mark)
{
	const struct algo_limit *limit = algo_current(&step->limit->algo);
	uint64_t now_ns = algo_time_at(limit, context->at).now_ns;
	uint64_t life_ns =
	    sat_sub(step->charge_ends_ns, now_ns) + u64_min(longest_state_ns(limit), PERMITS_CLOCKS_NS);
	struct weir_limit_options options = {
	    .rate = {1, u64_min(life_ns / NS_PER_S + 1, MARK_LIFE_MAX_S), WEIR_UNIT_SECOND}};

	if (algo_limit_init(&mark->limit, &options, NULL) != WEIR_OK)
		return false;
	mark->limit.is_adhoc = true;
	mark->limit.identity = limit->identity ^ id;
	snprintf(mark->name, sizeof mark->name, "%s:spent:%016llx", step->limit->name,
	         (unsigned long long)id);
	return true;
}

/*
 * Submits the mark of a charge, then its refund, which the store performs only if the mark passes.
 * A refund of cost 0 only asks whether the charge is spent, unless a report spends it. A refund
 * whose mark can't be made is left out: without a mark it could be done twice.
 */
void submit_refund_by_permit(const struct decision_context *context, struct plan *plan,
                             struct plan_step *step, const struct algo_call *call)
{
	struct submission *submission = plan->submission;
	struct mark *mark = &submission->marks[submission->mark_count++];
	bool spends = call->cost > 0 || permits_spend_other_charges(plan);
	struct algo_call mark_call = {spends ? ALGO_ACQUIRE : ALGO_PEEK, 1};
	uint64_t id = mark_id(plan, step);
	struct submitted *submitted;

	if (!open_mark(context, step, id, mark))
		return;
	submitted = append_operation(context, plan, step, &mark_call, NULL, false);
	submitted->is_mark = submitted->has_own_list = true;
	submitted->operation.step.limit = &mark->limit;
	submitted->operation.step.key.hash ^= id;
	submitted->operation.limit_name = mark->name;
	append_operation(context, plan, step, call, submitted, true)->has_own_list = true;
}

/*
 * Submits a claim of the permit: an acquire of its mark at the store that the servers share. Only
 * one server gets it, so a permit whose charges are in memory is reported or refunded once.
 */
bool submit_claim(const struct decision_context *context, struct plan *plan, struct plan_step *step)
{
	struct submission *submission = plan->submission;
	struct mark *mark = &submission->marks[submission->mark_count++];
	struct submitted *submitted;
	uint64_t id = mark_id(plan, step);
	struct store_key key = {.hash = step->key.hash ^ id};

	if (!open_mark(context, step, id, mark))
		return false;
	submitted = &submission->steps[submission->count++];
	*submitted = (struct submitted){
	    .operation =
	        {.step = {context->claim_store, &mark->limit, key, {ALGO_ACQUIRE, 1}, context->at},
	         .limit_name = mark->name,
	         .key_name = step->key_name,
	         .done = complete},
	    .submission = submission,
	    .step = step,
	    .has_own_list = true,
	    .is_claim = true,
	};
	return true;
}

/* Returns true if a store will complete the operations later, and false if all are completed. */
bool submit_all(const struct decision_context *context, struct plan *plan,
                const struct weir_decision *decision)
{
	struct submission *submission = plan->submission;

	submission->decision = *decision;
	__atomic_store_n(&submission->pending, submission->count + 1, __ATOMIC_RELAXED);
	for (uint32_t i = 0; i < submission->count; i++) {
		struct submitted *submitted = &submission->steps[i];
		struct store *store = submitted->operation.step.store;

		if (!submitted->follows_another)
			store->kind->submit(context->store_clients[store->index], &submitted->operation);
	}
	return !end_operation(submission);
}

void submit_decision(const struct plan *plan, struct weir_decision *decision)
{
	*decision = plan->submission->decision;
}

/* Returns the number of completed operations, which it removes from the submission. */
size_t submit_results(struct plan *plan, struct submitted **results)
{
	struct submission *submission = plan->submission;
	size_t n = submission ? submission->count : 0;

	if (submission) {
		*results = submission->steps;
		submission->count = 0;
	}
	return n;
}

void submit_close(struct plan *plan)
{
	struct submission *submission = plan->submission;
	struct submit_spares *spares = submission ? submission->spares : NULL;

	plan->submission = NULL;
	if (!spares || spares->count == SPARES_MAX) {
		free(submission);
		return;
	}
	submission->next_spare = spares->first;
	spares->first = submission;
	spares->count++;
}

void submit_free_spares(struct submit_spares *spares)
{
	struct submission *submission;

	while ((submission = spares->first)) {
		spares->first = submission->next_spare;
		free(submission);
	}
	spares->count = 0;
}
