/*
 * resp_session.h: a connection that speaks RESP, and the commands it may send.
 *
 * A command either becomes a request that somebody else decides (`read`, then
 * `write`), or is answered on the spot (`run`), when its turn to reply has
 * come: by then all that was sent before it is answered too, so HELLO changes
 * the form of what follows and of nothing else.
 */
#ifndef PROTO_RESP_SESSION_H
#define PROTO_RESP_SESSION_H

#include <stddef.h>
#include <stdint.h>

#include "proto/codec.h"
#include "proto/fill.h"
#include "proto/resp.h"
#include "proto/resp_form.h"

#define RESP_NAME_MAX 64

struct resp_session {
	struct codec_limits limits;
	struct resp_reader reader;
	struct resp_form form;
	int protocol; /* 2 or 3 */
	char name[RESP_NAME_MAX];
	size_t name_len;
};

#define RESP_ARGS_ANY 255

/* A command whose turn has come. */
struct resp_call {
	struct resp_session *session;
	const struct slice *args; /* its words, the name among them */
	size_t count;
	struct buffer *out;
};

struct resp_spec {
	struct slice name; /* in capitals */
	uint8_t min, max;  /* words, the name among them */
	uint8_t key;       /* which of them is the key; 0: none */
	enum request_kind kind;
	enum request_op op;
	enum request_class class;
	/* Words into fill->request; 0 or a status. */
	int (*read)(struct fill *fill, const struct resp_spec *spec, const struct slice *args,
	            size_t n);
	void (*write)(const struct reply *reply, struct buffer *out);
	void (*run)(const struct resp_call *call);
};

/** All commands; `n` receives how many. */
const struct resp_spec *resp_specs(size_t *n);
/** The command of that name in any case, or NULL. */
const struct resp_spec *resp_spec_find(struct slice name);

void resp_run_ping(const struct resp_call *call);
void resp_run_echo(const struct resp_call *call);
void resp_run_quit(const struct resp_call *call);
void resp_run_hello(const struct resp_call *call);
void resp_run_auth(const struct resp_call *call);
void resp_run_select(const struct resp_call *call);
void resp_run_client(const struct resp_call *call);
void resp_run_command(const struct resp_call *call);
void resp_run_info(const struct resp_call *call);
void resp_run_config(const struct resp_call *call);
void resp_run_reset(const struct resp_call *call);

#endif
