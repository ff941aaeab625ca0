/* call.h: what a reply to a call of a script means for its commands. */
#ifndef REDIS_SCRIPT_REPLY_H
#define REDIS_SCRIPT_REPLY_H

#include "redis/client_inside.h"

/* The meaning of an error of Redis for later calls. */
enum error_effect {
	ERROR_FAILS_CALL,         /* none: only this call failed */
	ERROR_NEEDS_SCRIPT,       /* the script has to be loaded */
	ERROR_REDIRECTS,          /* another node of the cluster is named (hash_slots.h) */
	ERROR_IS_TRANSIENT,       /* the call may succeed soon, or each command alone */
	ERROR_NODE_UNAVAILABLE,   /* they would fail alike for now */
	ERROR_SCRIPT_REFUSED,     /* the same, because Redis refuses commands of the script */
	ERROR_CONNECTION_USELESS, /* the same, and for good on this connection */
};

/** Reads the kind of an error from its text. */
enum error_effect error_effect_of(struct slice text);

/** Completes the commands of a call by its reply. Appends those to `again` that need another try.
 */
void script_call_complete(struct redis_client *client, struct script_call *call,
                          const struct redis_reply *reply, struct command_list *again);
/** Fails the commands of a call. */
void script_call_fail(struct redis_client *client, struct script_call *call);

#endif
