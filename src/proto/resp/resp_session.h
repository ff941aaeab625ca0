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
#include "proto/resp/resp.h"
#include "proto/resp/resp_template.h"

#define RESP_NAME_MAX 64

struct resp_multi;

struct resp_session {
	struct codec_bounds bounds;
	struct resp_reader reader;
	struct resp_template form;
	uint64_t id;
	int protocol;             /* 2 or 3 */
	unsigned tracking;        /* as CLIENT TRACKING was told, see resp_client.c */
	struct resp_multi *multi; /* since MULTI; NULL outside */
	char name[RESP_NAME_MAX];
	size_t name_len;
};

/* request.reply_code where it is no entry of the table. */
enum {
	RESP_REPLY_ERROR = -1, /* `text` in words */
	RESP_REPLY_TEXT = -2,  /* `text` as it stands */
};

/* Words of a command: DEL and EXISTS have the most. */
#define RESP_WORDS_MAX (1 + 1000)

#define RESP_ARGS_ANY 255

struct resp_call;

struct resp_spec {
	struct slice name; /* in capitals */
	uint8_t min, max;  /* words, the name among them */
	uint8_t key;       /* which of them is the key, or 0 */
	bool keys;         /* all behind it are keys, too */
	enum request_kind kind;
	enum request_op op;
	enum request_class class;
	/* Words into fill->request; 0 or a status. */
	int (*read)(struct fill *fill, const struct resp_spec *spec, const struct slice *args,
	            size_t n);
	void (*write)(const struct reply *reply, struct buffer *out);
	void (*run)(const struct resp_call *call);
	/*
	 * NULL: in a transaction the command is queued. Else this is done at once when it
	 * is read, in a transaction or not; it may make fill->request another answer.
	 */
	void (*execute)(struct resp_session *session, struct fill *fill);
};

/** All commands; `n` receives how many. */
const struct resp_spec *resp_specs(size_t *n);
/** The command of that name in any case, or NULL. */
const struct resp_spec *resp_spec_find(struct slice name);

/** The command of these words; NULL, and an error, if there is none that takes so many. */
const struct resp_spec *resp_check_words(struct fill *fill, const struct slice *args, size_t n);
/** Fills in what the request is from the table. */
void resp_set_spec(struct fill *fill, const struct resp_spec *spec);
/** Fills in the rest of the request from its words. 0 or a status. */
int resp_read_command(struct fill *fill, const struct resp_spec *spec, const struct slice *args,
                      size_t n);
/** The request is answered by fill->error. */
void resp_refuse(struct fill *fill);
/** Makes fill->request of one command's words, or of the error in them. */
void resp_read_words(struct fill *fill, const struct slice *args, size_t n);

/** Keeps the words for the reply, which `run` gives. 0 or ENOMEM. */
int resp_store_words(struct fill *fill, const struct slice *args, size_t n);

int resp_read_auth(struct fill *fill, const struct resp_spec *spec, const struct slice *args,
                   size_t n);
int resp_read_hello(struct fill *fill, const struct resp_spec *spec, const struct slice *args,
                    size_t n);
int resp_read_cl_throttle(struct fill *fill, const struct resp_spec *spec, const struct slice *args,
                          size_t n);
int resp_read_throttle(struct fill *fill, const struct resp_spec *spec, const struct slice *args,
                       size_t n);
int resp_read_key(struct fill *fill, const struct resp_spec *spec, const struct slice *args,
                  size_t n);
int resp_read_keys(struct fill *fill, const struct resp_spec *spec, const struct slice *args,
                   size_t n);
void resp_write_cl_throttle(const struct reply *reply, struct buffer *out);
void resp_write_throttle(const struct reply *reply, struct buffer *out);
void resp_write_ttl(const struct reply *reply, struct buffer *out);
void resp_write_pttl(const struct reply *reply, struct buffer *out);

void resp_run_ping(const struct resp_call *call);
void resp_run_echo(const struct resp_call *call);
void resp_run_ok(const struct resp_call *call);
void resp_run_acl(const struct resp_call *call);
void resp_run_hello(const struct resp_call *call);
void resp_run_select(const struct resp_call *call);
void resp_run_client(const struct resp_call *call);
void resp_run_command(const struct resp_call *call);
void resp_run_info(const struct resp_call *call);
void resp_run_config(const struct resp_call *call);
void resp_run_reset(const struct resp_call *call);

#endif
