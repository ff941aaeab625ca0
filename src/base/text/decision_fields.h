/*
 * decision_fields.h: names the fields of a decision's answer in JSON.
 *
 * The writer of answers uses only fields that are listed here. A rule's `result` comes after them
 * and can't have one of their names: most readers keep the last of two equal fields, so a result
 * could turn a denial into a grant.
 */
#ifndef BASE_TEXT_DECISION_FIELDS_H
#define BASE_TEXT_DECISION_FIELDS_H

/* X(name); error: instead of all others. */
#define DECISION_FIELDS(X)                                                                         \
	X(allowed)                                                                                     \
	X(limit)                                                                                       \
	X(quota)                                                                                       \
	X(remaining)                                                                                   \
	X(retry_after_ms)                                                                              \
	X(reset_after_ms)                                                                              \
	X(wait_ms)                                                                                     \
	X(reason)                                                                                      \
	X(degraded)                                                                                    \
	X(rule)                                                                                        \
	X(permit)                                                                                      \
	X(error)

enum {
#define DECISION_FIELD_LISTED(name) DECISION_##name,
	DECISION_FIELDS(DECISION_FIELD_LISTED)
#undef DECISION_FIELD_LISTED
};

/** `before`, a literal, and `"name":`; compiles for names that are listed. */
#define DECISION_FIELD(before, name) (&before "\"" #name "\":"[0 * DECISION_##name])

#endif
