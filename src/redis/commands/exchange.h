/*
 * exchange.h: builds and reads the messages by which servers of one Redis exchange votes and
 * reports. Each message is one call of a script.
 *
 * A quorum group decides a limit together: each server sends the results of its requests, and
 * receives the phase changes that follow (scripts/quorum.lua has the rules). A server also notifies
 * another one of reports on permits that the other has issued (scripts/reports.lua).
 *
 * An exchange is an operation of a store client. Its limit and `limit_name` identify the quorum
 * group; for reports, `limit_name` is the server that issued the permits. `key_name` is not used.
 */
#ifndef REDIS_EXCHANGE_H
#define REDIS_EXCHANGE_H

#include "base/buffer.h"
#include "redis/network/reply.h"
#include "store/store.h"

#define EXCHANGE_REPORTS_MAX 100 /* the same as in scripts/reports.lua */
#define EXCHANGE_ID_SIZE     17  /* of a server's id: letters and digits, and a NUL */
/* The first letter of an id: the server's votes end with its lease. */
#define EXCHANGE_ID_MARK "s"

#define EXCHANGE_KEYS 4

struct exchange {
	struct store_operation operation; /* first: EXCHANGE_VOTES or EXCHANGE_REPORTS (algo/op.h) */
	struct buffer message;            /* the RESP words that follow the call's keys */
	size_t word_count;                /* of `message` */
	struct buffer answer;             /* valid when the operation is done without an error */
};

enum exchange_entry_kind {
	EXCHANGE_VOTE_TO_OPEN = 'v',
	EXCHANGE_WANTED_PROBES = 'a', /* first count: requested probes */
	EXCHANGE_PROBE_RESULTS = 'r', /* counts: good, bad, slow, released */
	EXCHANGE_RESET = 'z',
};

/*
 * An entry of a message: what a server reports of a key, the version of the key's phase that it
 * refers to (the number of the phase change that began it), and counts.
 */
struct exchange_entry {
	enum exchange_entry_kind kind;
	uint64_t follows_version;
	uint32_t counts[4];
	struct slice key;
};

enum exchange_event_kind {
	/* `version` is that of the newest phase change; `count`: whether there are more. */
	EXCHANGE_END = '.',
	EXCHANGE_OPEN = 'o', /* for age_ns, after `count` failed probes in a row */
	EXCHANGE_CLOSED = 'c',
	EXCHANGE_GRANTED_PROBES = 'p', /* `count` further probes were granted */
	EXCHANGE_FULL = 'x',           /* the quorum group can't hold the key */
};

struct exchange_event {
	enum exchange_event_kind kind;
	uint64_t version, age_ns, count; /* version: the number of a phase change */
	struct slice key;                /* a part of the answer */
};

/* The sender of a message. */
struct exchange_server {
	const char *id;         /* starts with EXCHANGE_ID_MARK */
	uint64_t known_version; /* it has all phase changes up to this one; ... */
	bool rejoining;         /* ... after a restart, it has nothing else */
	uint64_t lease_ns;      /* how long its votes count after the call; 0 if the server stops */
};

/** Begins a message of votes. */
void exchange_begin_votes(struct exchange *exchange, const struct exchange_server *server);
void exchange_add_entry(struct exchange *exchange, const struct exchange_entry *entry);
/** Reads the next event of an answer. False at the end, and if the answer is invalid. */
bool exchange_read_event(struct slice *answer, struct exchange_event *event);
void exchange_free(struct exchange *exchange);

/**
 * Begins a message that notifies another server of a report, which must be read within `life_ns`;
 * ...
 */
void exchange_begin_report(struct exchange *exchange, struct slice report, uint64_t life_ns);
/** ... or one that fetches the reports on this server's permits, at most EXCHANGE_REPORTS_MAX. */
void exchange_begin_fetch(struct exchange *exchange);
/** Reads the next report of an answer. False at the end. */
bool exchange_read_report(struct slice *answer, struct slice *report);

/* For store clients: */

/**
 * Appends the name of the first of its keys, prefix:quorum:{LIMIT}:keys. The others differ in the
 * last word.
 */
void exchange_key(struct buffer *out, const char *prefix, const struct exchange *exchange);
/** Appends all EXCHANGE_KEYS names as words. */
void exchange_write_keys(struct slice first, struct buffer *out);
void exchange_write(const struct exchange *exchange, struct buffer *out);
/** Copies the answer. False if it is invalid, or if there is no memory. */
bool exchange_read_answer(struct exchange *exchange, const struct redis_reply *reply);

#endif
