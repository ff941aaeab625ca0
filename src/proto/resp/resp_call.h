/* resp_call.h: a command that is answered on the spot, and the common forms of such answers. */
#ifndef PROTO_RESP_CALL_H
#define PROTO_RESP_CALL_H

#include "proto/resp/resp_session.h"

/* Weir speaks the commands of this version; clients choose their ways by it. */
#define RESP_REDIS_VERSION "7.2.0"

/* A command whose turn has come. */
struct resp_call {
	struct resp_session *session;
	const struct slice *args; /* its words, the name among them */
	size_t count;
	struct slice user; /* the name; NULL if none is known */
	struct buffer *out;
};

struct resp_subcommand {
	struct slice name;
	uint8_t min, max; /* words, both names among them */
	void (*run)(const struct resp_call *call);
};

void resp_call_ok(const struct resp_call *call);
void resp_call_error(const struct resp_call *call, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/** The head of `n` pairs: a map, or in RESP2 an array of twice as many. */
void resp_call_map(const struct resp_call *call, uint64_t n);
void resp_call_null(const struct resp_call *call);
/** Text for people: RESP3 has a type for it. */
void resp_call_verbatim(const struct resp_call *call, struct slice text);
/** Runs the one that the second word names, or answers that there is none. */
void resp_call_subcommand(const struct resp_subcommand *table, size_t table_len,
                          const struct resp_call *call);

#define RESP_CALL_SUBCOMMAND(table)                                                                \
	resp_call_subcommand(table, sizeof(table) / sizeof *(table), call)

#endif
