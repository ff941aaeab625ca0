/*
 * koala.c: answers as the rule server of Koala, an older rate limiter, does: with the JSON result
 * of the rule that decided a request, and with pages that list rules and how often each has allowed
 * and denied.
 */
#include "server/requests/koala.h"

#include "rules/show.h"
#include "server/denials/denial_keeper.h"

/* An object with the fields that Koala's clients read. */
#define RESULT(type, error, reason)                                                                \
	"{\"Ret_type\":" #type ",\"Ret_code\":0,\"Err_no\":" #error ",\"Err_msg\":\"\","               \
	"\"Str_reason\":\"" reason "\",\"Need_vcode\":0,\"Vcode_len\":0,\"Vcode_type\":0,"             \
	"\"Other\":\"\",\"Version\":0}"

/* Results for configurations that define none. */
static const char unmatched[] = RESULT(0, 0, "Allow"), unexceeded[] = RESULT(1, 0, "Allow"),
                  denied[] = RESULT(2, 10, "Deny");

static struct slice text_or(const char *given, const char *otherwise)
{
	return slice_of(given ? given : otherwise);
}

/* The result that a rule defines, or the usual one for its decision. */
static struct slice result_of_rule(const struct weir_config *config, const struct rules_rule *rule,
                                   bool allowed)
{
	if (rule->result || !allowed)
		return text_or(rule->result, denied);
	return text_or(config->koala.unexceeded, unexceeded);
}

/* The result if no rule refuses. */
static struct slice result_of_none(const struct weir_config *config, bool any_rule_applies)
{
	return any_rule_applies ? text_or(config->koala.unexceeded, unexceeded)
	                        : text_or(config->koala.unmatched, unmatched);
}

static void count_answer(struct decider *decider, const struct rules_rule *rule, bool allowed)
{
	size_t number = (size_t)(rule - decider->config->rules->rules);
	const struct named_counters *answers = decider->config->rule_counters[number];

	metrics_add(&metrics_answers_of(answers, decider->index)->answers[allowed], 1);
}

/*
 * Whether the step's limit refuses. In a plan that takes all or nothing, a step with `allowed`
 * false may have been given back, or not been run at its store, because another step refused.
 */
static bool step_refuses(const struct plan *plan, const struct plan_step *step)
{
	return plan->steps_are_independent ? !step->allowed : step->refused;
}

/*
 * Counts a denial of a browse by a rule, whose refused step may be NULL, and may keep it: such an
 * answer decides for clients of Koala. If the browse acquires, the engine does so for its limits. A
 * rule without limits may have a step of a limit that is not in the configuration.
 */
static void count_browsed_denial(struct decider *decider, const struct plan *plan,
                                 const struct rules_rule *rule, const struct plan_step *step)
{
	if (!step || rule->limit_count == 0)
		denial_keeper_count_listed(decider, plan, rule);
	else if (!algo_op_consumes(plan->op))
		denial_keeper_count(decider, plan, step,
		                    engine_limit_index(decider->config->engine, step->limit));
	decider->denial_id[0] = '\0'; /* answers to Koala's clients do not name it */
}

/*
 * Iterates over the rules whose steps the plan enforces: the steps of a rule stand together.
 * Returns the rule at or after step *i, and moves *i behind its steps; NULL at the end. *refused is
 * the first of its steps whose limit refuses, or NULL.
 */
static const struct rules_rule *next_rule(const struct plan *plan, uint32_t *i,
                                          const struct plan_step **refused)
{
	const struct rules_rule *rule = NULL;

	*refused = NULL;
	for (; *i < plan->step_count; ++*i) {
		const struct plan_step *step = &plan->steps[*i];

		if (step->shadow || !step->rule)
			continue;
		if (rule && step->rule != rule)
			break;
		rule = step->rule;
		if (!*refused && step_refuses(plan, step))
			*refused = step;
	}
	return rule;
}

/* Answers with the rule that refuses, or else the rule that answers without limits, if any. */
void koala_answer_browse(struct decider *decider, const struct plan *plan, struct reply *reply)
{
	const struct weir_config *config = decider->config->rules;
	const struct rules_rule *rule =
	    plan->refused_step ? plan->refused_step->rule : plan->answering_rule;
	bool any_rule = false, allowed = reply->decision.allowed;
	const struct plan_step *refused;

	/* If a browse that acquires is denied by a rule's answer, denial_list_explain has counted it. */
	if (rule && !allowed && (plan->refused_step || !algo_op_consumes(plan->op)))
		count_browsed_denial(decider, plan, rule, plan->refused_step);
	if (rule) {
		count_answer(decider, rule, allowed);
		reply->body = result_of_rule(config, rule, allowed);
		return;
	}
	for (uint32_t i = 0; (rule = next_rule(plan, &i, &refused)); any_rule = true)
		count_answer(decider, rule, true);
	reply->body = result_of_none(config, any_rule);
}

int koala_check_each_limit(const struct plan *plan)
{
	for (uint32_t i = 0; i < plan->step_count; i++)
		if (!plan->steps[i].allowed && plan->steps[i].reason == WEIR_REASON_STORE_FAILURE)
			return WEIR_ESTORE;
	return WEIR_OK;
}

/* Answers with the results of all rules that refuse, or with one result if none does. */
int koala_answer_browse_all(struct decider *decider, const struct plan *plan, struct reply *reply)
{
	const struct weir_config *config = decider->config->rules;
	const struct rules_rule *rule;
	struct slice *results;
	const struct plan_step *refused;
	bool any_rule = false;
	size_t n = 0;

	results = arena_array(&decider->arena, (size_t)plan->step_count + 1, sizeof *results);
	if (!results)
		return WEIR_ENOMEM;
	for (uint32_t i = 0; (rule = next_rule(plan, &i, &refused)); any_rule = true) {
		/* a rule may be configured to answer "Allow" although its limit is used up */
		bool answers_allow = !refused || rule->answer == RULES_ALLOW;

		count_answer(decider, rule, answers_allow);
		if (!answers_allow)
			count_browsed_denial(decider, plan, rule, refused);
		if (refused)
			results[n++] = result_of_rule(config, rule, answers_allow);
	}
	if (n == 0)
		results[n++] = result_of_none(config, any_rule);
	reply->results = results;
	reply->result_count = n;
	return WEIR_OK;
}

/* Finds a rule by its number, as it is written or else without its leading zeros. */
const struct rules_rule *koala_rule(const struct decider *decider, struct slice number)
{
	const struct rules_rule *rule = engine_rule(decider->config->engine, number);

	if (rule)
		return rule;
	while (number.len > 1 && *number.data == '0')
		slice_skip(&number, SLICE("0"));
	return engine_rule(decider->config->engine, number);
}

bool koala_stores_are_up(const struct decider *decider)
{
	/* a set of bits: each iteration clears the lowest one */
	for (uint64_t rest = decider->config->remote_stores; rest != 0; rest &= rest - 1) {
		const struct store_client *client = decider->store_clients->by_store[__builtin_ctzll(rest)];
		struct redis_stats stats;

		redis_store_stats(client->store, &stats);
		if (!stats.is_up)
			return false;
	}
	return true;
}

int koala_list_rules(struct decider *decider, struct buffer *out)
{
	const struct weir_config *config = decider->config->rules;

	for (size_t i = 0; i < config->rule_count; i++) {
		rules_show_rule(config, &config->rules[i], out);
		buffer_add(out, "\n", 1);
	}
	return WEIR_OK;
}

int koala_list_counters(struct decider *decider, struct buffer *out)
{
	const struct weir_config *config = decider->config->rules;

	for (size_t i = 0; i < config->rule_count; i++) {
		const struct named_counters *answers = decider->config->rule_counters[i];

		buffer_add_text(out, "rule_no:");
		buffer_add_json(out, slice_of(answers->name)); /* escaped, so that it has no newline */
		for (int allowed = 1; allowed >= 0; allowed--) {
			buffer_add_text(out, allowed ? "  allow:" : "  deny:");
			buffer_add_u64(out, metrics_answered(decider->shared->metrics, answers, allowed));
		}
		buffer_add(out, "\n", 1);
	}
	return WEIR_OK;
}

struct slice koala_find_line(const struct decider *decider, struct slice page, struct slice name)
{
	const struct rules_rule *rule = koala_rule(decider, name);
	struct slice line = {NULL, 0};

	if (!rule)
		return line;
	/* the page has a line for each rule, in the order of the array */
	for (const struct rules_rule *one = decider->config->rules->rules; one <= rule; one++)
		line = slice_cut(&page, '\n');
	return (struct slice){line.data, line.len + 1}; /* with the newline */
}
