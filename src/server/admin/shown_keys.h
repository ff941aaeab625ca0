/*
 * shown_keys.h: finds the key that an operator means by a text from a list, the log or the page.
 *
 * Secret keys are shown by a digest. Keys whose name is unknown are shown by "#" and digits of a
 * hash, and long keys by their first bytes and "…". As a name, such a text is another key. A
 * request that changes or reads a key's state by a name therefore finds the key here first.
 */
#ifndef SERVER_SHOWN_KEYS_H
#define SERVER_SHOWN_KEYS_H

#include "server/requests/decider.h"

struct shown_key {
	struct key_phase key; /* its hash, and the text that lists show */
	struct slice name;    /* the whole name; no data if only the hash is known */
};

/**
 * Fills in the limit's key that is meant: that of this name, or the one that is shown so. Returns
 * NULL, or what was expected in place of a text that stands for a key which can't be found, or for
 * several.
 */
const char *shown_keys_find(const struct decider *decider, const weir_limit *limit,
                            struct slice text, struct shown_key *out);

/**
 * Sets the key of a prepared reset of one limit, whose request has this text. Sets an error if the
 * key can't be found.
 */
void shown_keys_set_reset(struct decider *decider, struct work *work, const weir_limit *limit,
                          struct slice text);

/**
 * The same for a peek, which many clients send: finds the key only if nothing is counted for a key
 * of this name, and does not search the denials.
 */
void shown_keys_set_peek(struct decider *decider, struct work *work, const weir_limit *limit,
                         struct slice text);

/** Whether the text has the form of a digest. */
bool shown_keys_is_digest(struct slice text);
/**
 * Refuses a prepared reset by a text in the form of a digest, if no key is known by it and nothing
 * is counted for a key of that name. Otherwise such a reset would change nothing, and its answer
 * would look as if it had. Call this before the plan runs. A Redis is not asked.
 */
void shown_keys_check_reset(struct decider *decider, struct work *work);
/** Sets the error of such a reset. */
void shown_keys_refuse_reset(struct decider *decider, struct work *work);

#endif
