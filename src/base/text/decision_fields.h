/*
 * decision_fields.h: names the fields of a decision's answer in JSON.
 *
 * A rule may add a `result` with fields of its own to a response, which come after these. A reader
 * of rules refuses results with one of these names: most JSON readers use the last of two equal
 * fields, so such a result could turn a denial into a grant. The writer of responses uses only
 * fields that are listed here.
 */
#ifndef BASE_TEXT_DECISION_FIELDS_H
#define BASE_TEXT_DECISION_FIELDS_H

/* X(name). A response with `error` has no other field. */
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

/** The literal `before` followed by `"name":`. Compiles only for names that are listed. */
#define DECISION_FIELD(before, name) (&before "\"" #name "\":"[0 * DECISION_##name])

#endif
