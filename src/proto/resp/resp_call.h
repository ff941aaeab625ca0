/* resp_call.h: describes a RESP command that the codec answers without the server, such as PING,
 * and writes the answers that such commands have in common. */
#ifndef PROTO_RESP_CALL_H
#define PROTO_RESP_CALL_H

#include "proto/resp/resp_session.h"

/* The version of Redis that Weir reports, by which clients choose their commands. */
#define RESP_REDIS_VERSION "7.2.0"

/* A command that is to be answered now. */
struct resp_call {
	struct resp_session *session;
	const struct slice *words; /* including the command's name */
	size_t word_count;
	struct slice user; /* the user's name; NULL if there is none */
	struct buffer *out;
};

struct resp_subcommand {
	struct slice name;
	uint8_t min_words, max_words; /* including both names */
	const char *usage;            /* the words behind the names, for an error; may be empty */
	void (*answer)(const struct resp_call *call);
};

void resp_call_write_ok(const struct resp_call *call);
void resp_call_write_error(const struct resp_call *call, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/** Writes the length of a map of `n` pairs, or in RESP2 of an array of twice as many. */
void resp_call_begin_map(const struct resp_call *call, uint64_t n);
void resp_call_write_null(const struct resp_call *call);
/** Writes a text for people, which has a type of its own in RESP3. */
void resp_call_write_text(const struct resp_call *call, struct slice text);
/** Runs the subcommand that the second word names, or answers with an error. */
void resp_call_run_subcommand(const struct resp_subcommand *table, size_t table_len,
                              const struct resp_call *call);

#define RESP_RUN_SUBCOMMAND(table)                                                                 \
	resp_call_run_subcommand(table, sizeof(table) / sizeof *(table), call)

#endif
