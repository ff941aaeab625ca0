/* koala.h: what Koala's callers are told of a decision, and what is counted of it. */
#ifndef SERVER_KOALA_H
#define SERVER_KOALA_H

#include "server/requests/decider.h"

/** The result that a decided REQUEST_BROWSE is answered by, which counts for its rules. */
void koala_answer_browse(struct decider *decider, const struct plan *plan, struct reply *reply);
/** Of a decided REQUEST_EACH_LIMIT: 0 or ESTORE, a store could not be asked, and its limit fails closed.
 */
int koala_check_each(const struct plan *plan);
/**
 * Answers a decided REQUEST_BROWSE_ALL with the results of the rules that refused it, or with the
 * result for no refusal. 0 or ENOMEM.
 */
int koala_answer_complete(struct decider *decider, const struct plan *plan, struct reply *reply);
/** The rule of that number, which may have zeros before it; or NULL. */
const struct rules_rule *koala_rule(const struct decider *decider, struct slice number);
/** Whether the stores of all limits can be reached. */
bool koala_stores_are_up(const struct decider *decider);

/** Pages: a line for each rule, in the order of the file. 0 or ENOMEM. */
int koala_list_rules(struct decider *decider, struct buffer *out);
int koala_list_counters(struct decider *decider, struct buffer *out);
/** The line of one rule, of such a page; NULL: there is no such rule. */
struct slice koala_find_line(const struct decider *decider, struct slice page, struct slice rule);

#endif
