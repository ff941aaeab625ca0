/* call.h: what a reply to a call of a script means for its commands. */
#ifndef REDIS_CALL_H
#define REDIS_CALL_H

#include "redis/client_inside.h"

/* The meaning of an error of Redis for later calls. */
enum call_error {
	CALL_ERROR_OWN,         /* none: only this call failed */
	CALL_ERROR_SCRIPT,      /* the script has to be loaded */
	CALL_ERROR_MOVED,       /* another node of the cluster is named (hash_slots.h) */
	CALL_ERROR_SOON,        /* the call may succeed soon, or each command alone */
	CALL_ERROR_UNAVAILABLE, /* they would fail alike for now */
	CALL_ERROR_WITHIN,      /* the same, because Redis refuses commands of the script */
	CALL_ERROR_LOST,        /* the same, and for good on this connection */
};

/** Reads the kind of an error from its text. */
enum call_error call_error_of(struct slice text);

/** Completes the commands of a call by its reply. Appends those to `again` that need another try.
 */
void call_finish(struct redis_client *client, struct call *call, const struct redis_reply *reply,
                 struct command_list *again);
/** Fails the commands of a call. */
void call_fail(struct redis_client *client, struct call *call);

#endif
