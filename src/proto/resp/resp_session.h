/*
 * resp_session.h: defines the state of a RESP connection, and the entries of the table of commands.
 *
 * A command either becomes a request for the server (`fill_request`, and later `write_reply`), or
 * the codec answers it (`answer`). `answer` is called when the replies to all commands before are
 * written. Therefore HELLO changes the protocol version of later replies only.
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
	struct resp_template last_command;
	uint64_t connection_id;
	int protocol_version;     /* 2 or 3 */
	unsigned tracking_flags;  /* the options of CLIENT TRACKING, see resp_client.c */
	struct resp_multi *multi; /* NULL outside a transaction */
	char client_name[RESP_NAME_MAX];
	size_t client_name_len;
};

/* Values of request.reply_code that are no index of the table of commands. */
enum {
	RESP_REPLY_ERROR = -1, /* answer with an error whose message is request.text */
	RESP_REPLY_TEXT = -2,  /* answer with request.text, which is RESP already */
};

/* The most words of a command, which DEL and EXISTS may have. */
#define RESP_WORDS_MAX (1 + 1000)

#define RESP_ARGS_ANY 255

struct resp_call;

struct resp_spec {
	struct slice name;            /* in capitals */
	const char *usage;            /* its arguments, for an error; empty if it has none */
	uint8_t min_words, max_words; /* including the name */
	uint8_t key_index;            /* of the word that is the key, or 0 */
	bool has_many_keys;           /* all later words are keys, too */
	enum request_kind kind;
	enum request_op op;
	enum request_class class;
	/* Fills in fill->request from the words. 0 or a status. */
	int (*fill_request)(struct fill *fill, const struct resp_spec *spec, const struct slice *args,
	                    size_t n);
	void (*write_reply)(const struct reply *reply, struct buffer *out);
	void (*answer)(const struct resp_call *call);
	/*
	 * Executes the command when it is read, even in a transaction; may fill in the answer. NULL for
	 * commands that a transaction queues.
	 */
	void (*execute_when_read)(struct resp_session *session, struct fill *fill);
};

/** All commands; sets *n to their number. */
const struct resp_spec *resp_specs(size_t *n);
/** Finds a command by its name in any case; NULL if there is none. */
const struct resp_spec *resp_spec_find(struct slice name);

/** Finds the command of these words. NULL and an error if it is unknown or their number is wrong.
 */
const struct resp_spec *resp_check_words(struct fill *fill, const struct slice *args, size_t n);
/** Fills in kind, operation and permission of the request from the table. */
void resp_set_spec(struct fill *fill, const struct resp_spec *spec);
/** Fills in the other members of the request from its words. 0 or a status. */
int resp_read_command(struct fill *fill, const struct resp_spec *spec, const struct slice *args,
                      size_t n);
/** Makes the request one that is answered by fill->error. */
void resp_refuse(struct fill *fill);
/** Fills in fill->request from a command's words, or with the error in them. */
void resp_read_queued_command(struct fill *fill, const struct slice *args, size_t n);

/** Stores the words in the request, for `answer`. 0 or ENOMEM. */
int resp_copy_words_to_request(struct fill *fill, const struct slice *args, size_t n);

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
