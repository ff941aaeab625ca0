/*
 * exchange.h: messages between the servers of one Redis, each one call of a script.
 *
 * A quorum group decides a limit together: each server sends what its requests have found, and
 * reads the changes of phase that follow (scripts/quorum.lua has the rules). A server also notifies
 * another of reports on that one's permits (scripts/reports.lua).
 *
 * An exchange is an operation of a store client. Its limit and `limit_name` say whose keys it is
 * about, or `limit_name` the server whose permits; `key_name` means nothing.
 */
#ifndef REDIS_EXCHANGE_H
#define REDIS_EXCHANGE_H

#include "base/buffer.h"
#include "redis/network/reply.h"
#include "store/store.h"

#define EXCHANGE_REPORTS_MAX 100 /* as scripts/reports.lua has it */
#define EXCHANGE_ID_SIZE 17 /* of a server, in letters and digits, and a NUL */
#define EXCHANGE_ID_MARK "s" /* in front of it: the server's votes end with its lease */

#define EXCHANGE_KEYS 4

struct exchange {
	struct store_operation operation; /* first: EXCHANGE_VOTES or EXCHANGE_REPORTS (algo/op.h) */
	struct buffer message; /* the words of the call behind its keys */
	size_t words;
	struct buffer answer; /* when the operation is done without an error */
};

enum exchange_word {
	EXCHANGE_TRIPS = 'v',
	EXCHANGE_ASKS = 'a',    /* first: for so many probes */
	EXCHANGE_PROBES = 'r',  /* good, bad, slow, freed */
	EXCHANGE_RESETS = 'z',
};

/* An entry of a message, for a key: after which phase change, the word, and how often. */
struct exchange_entry {
	enum exchange_word word;
	uint64_t number;
	uint32_t counts[4];
	struct slice key;
};

enum exchange_kind {
	EXCHANGE_END = '.',  /* `number` is the newest turn; count: there are more */
	EXCHANGE_OPEN = 'o', /* since age_ns, after `count` failed probes in a row */
	EXCHANGE_CLOSED = 'c',
	EXCHANGE_GIVEN = 'p', /* so many probes more */
	EXCHANGE_FULL = 'x',  /* the quorum group has no room for the key */
};

struct exchange_event {
	enum exchange_kind kind;
	uint64_t number, age_ns, count;
	struct slice key; /* in the answer */
};

/* A server in a call. */
struct exchange_server {
	const char *id;    /* begins with EXCHANGE_ID_MARK */
	uint64_t since;    /* it knows all turns up to this one; ... */
	bool rejoining;    /* and nothing else */
	uint64_t lease_ns; /* how long its votes count after the call, or 0 if the server stops */
};

/** Begins a call. */
void exchange_begin_votes(struct exchange *exchange, const struct exchange_server *server);
void exchange_add_entry(struct exchange *exchange, const struct exchange_entry *entry);
/** Reads the next of an answer. False at the end, and if it is nonsense. */
bool exchange_read_event(struct slice *answer, struct exchange_event *event);
void exchange_free(struct exchange *exchange);

/** Begins a call that notifies another server of a report, which it reads within `life_ns`; ... */
void exchange_begin_report(struct exchange *exchange, struct slice report, uint64_t life_ns);
/** ... and one that takes the reports of this server's permits, EXCHANGE_REPORTS_MAX at most. */
void exchange_begin_fetch(struct exchange *exchange);
/** The next of them. False at the end. */
bool exchange_read_report(struct slice *answer, struct slice *report);

/* For clients: */

/** Appends the name of the first of its keys, prefix:fleet:{LIMIT}:keys; the others end otherwise. */
void exchange_key(struct buffer *out, const char *prefix, const struct exchange *exchange);
/** Appends all of them, EXCHANGE_KEYS words. */
void exchange_write_keys(struct slice first, struct buffer *out);
void exchange_write(const struct exchange *exchange, struct buffer *out);
/** False if it is nonsense, or if there is no memory. */
bool exchange_read_answer(struct exchange *exchange, const struct redis_reply *reply);

#endif
