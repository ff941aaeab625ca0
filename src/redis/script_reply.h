/*
 * script_reply.h: completes the commands of a script's call by the reply, and classifies errors of
 * Redis.
 */
#ifndef REDIS_SCRIPT_REPLY_H
#define REDIS_SCRIPT_REPLY_H

#include "redis/client_inside.h"

/* The effect of an error of Redis on the call, its node and its connection. */
enum error_effect {
	ERROR_FAILS_CALL,         /* this call fails, and nothing follows for others */
	ERROR_NEEDS_SCRIPT,       /* the script has to be loaded, and the call repeated */
	ERROR_REDIRECTS,          /* another node of the cluster is named (hash_slots.h) */
	ERROR_IS_TRANSIENT,       /* the call may succeed soon, or each of its commands alone */
	ERROR_NODE_UNAVAILABLE,   /* all calls would fail for now: the node is unavailable */
	ERROR_SCRIPT_REFUSED,     /* the same: Redis refuses a command within the script */
	ERROR_CONNECTION_USELESS, /* the same, and the connection has to be closed */
};

/** Classifies an error by its text. */
enum error_effect error_effect_of(struct slice text);

/**
 * Completes the commands of a call by its reply. Appends those that need another try to `again`.
 */
void script_call_complete(struct redis_client *client, struct script_call *call,
                          const struct redis_reply *reply, struct command_list *again);
/** Fails the commands of a call. */
void script_call_fail(struct redis_client *client, struct script_call *call);

#endif
