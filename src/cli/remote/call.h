/* call.h: asks a server over HTTP for a command of `weir`, and tells the user why that failed. */
#ifndef CLI_REMOTE_CALL_H
#define CLI_REMOTE_CALL_H

#include "cli/remote/server_flags.h"
#include "client/http_reply.h"

/* The bound of an answer. That of /v1/stats is the longest, with at most 16 MiB. */
#define CALL_ANSWER_MAX ((size_t)32 << 20)

#define CALL_CONNECT_S 5  /* the most seconds for connecting */
#define CALL_ANSWER_S  30 /* the most seconds until the answer is complete */

enum call_result {
	CALL_DONE,    /* a status below 300 */
	CALL_REFUSED, /* the server needs a login, or the user may not do this: 401, 403 */
	CALL_FAILED,  /* any other status */
	CALL_BROKEN,  /* no answer, or none of Weir */
};

struct call {
	const char *method, *path; /* the path with its query */
	struct slice body;         /* JSON, or empty */
	bool is_patient;           /* the server may take as long as it wants */
};

/**
 * Calls the server. The caller frees *reply. For all results but CALL_DONE `error` says why, with
 * the server's own message if it sent one.
 */
enum call_result call_server(const struct server_flags *flags, const struct call *call,
                             struct http_reply *reply, struct weir_error *error);

/**
 * Prints why the call failed: all of the server's message if it sent one, otherwise that of
 * `error`. Returns EXIT_USAGE.
 */
int call_fail(const char *command, const struct http_reply *reply, const struct weir_error *error);

/** The body of a reply. */
static inline struct slice call_body(const struct http_reply *reply)
{
	return (struct slice){reply->body.data, reply->body.len};
}

/** Appends ,"NAME":"TEXT" to a JSON object. False, with an error, if the text is not UTF-8. */
bool call_add_text(struct buffer *body, const char *name, const char *text,
                   struct weir_error *error);

/** Sets `error` to what a command says about an answer that it does not understand. */
int call_misunderstood(const struct server_flags *flags, struct weir_error *error);

#endif
