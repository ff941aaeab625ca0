/* koala.h: makes the results that Koala's clients expect, and counts answers for each rule. */
#ifndef SERVER_KOALA_H
#define SERVER_KOALA_H

#include "server/requests/decider.h"

/** Answers a decided REQUEST_BROWSE with a result, and counts it for its rules. */
void koala_answer_browse(struct decider *decider, const struct plan *plan, struct reply *reply);
/**
 * Returns ESTORE if a limit of a decided REQUEST_EACH fails closed because of its store; otherwise
 * 0.
 */
int koala_check_each_limit(const struct plan *plan);
/**
 * Answers a decided REQUEST_COMPLETE with the results of the rules that refused it, or with the
 * result for no refusal. Returns 0 or ENOMEM.
 */
int koala_answer_browse_all(struct decider *decider, const struct plan *plan, struct reply *reply);
/** The rule of that number, which may have leading zeros; or NULL. */
const struct rules_rule *koala_rule(const struct decider *decider, struct slice number);
/** Whether all stores that have limits are available. */
bool koala_stores_are_up(const struct decider *decider);

/** Render pages with one line for each rule, in the order of the file. Return 0 or ENOMEM. */
int koala_list_rules(struct decider *decider, struct buffer *out);
int koala_list_counters(struct decider *decider, struct buffer *out);
/** The line of a rule in such a page; NULL if there is no such rule. */
struct slice koala_find_line(const struct decider *decider, struct slice page, struct slice rule);

#endif
