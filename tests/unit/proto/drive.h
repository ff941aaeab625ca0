/*
 * drive.h: gives bytes to a codec as the server does, and logs the requests and replies.
 *
 * Every call sees the pending bytes at a new address, in a block of exactly their size, and an
 * arena that was just reset. So the sanitizers find a codec that uses memory longer than it may.
 */
#ifndef TESTS_UNIT_PROTO_DRIVE_H
#define TESTS_UNIT_PROTO_DRIVE_H

#include <assert.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "proto/codec.h"

struct drive {
	const struct codec *codec;
	void *session;
	struct reply reply;     /* to every request that is not local */
	struct buffer pending;  /* bytes no request has consumed */
	struct buffer out;      /* replies */
	struct buffer requests; /* one line for each request that is not local */
	bool closed;
};

static inline void drive_open(struct drive *drive, const struct codec *codec,
                              const struct codec_bounds *bounds, const struct reply *reply)
{
	*drive =
	    (struct drive){.codec = codec, .session = malloc(codec->session_size), .reply = *reply};
	codec->open(drive->session, bounds, 7);
}

static inline void drive_log(struct buffer *log, const struct request *request)
{
	static const char *const kinds[] = {
	    "limit",  "rules", "adhoc",  "local",    "interim",  "health", "ready", "metrics",
	    "limits", "top",   "policy", "counters", "events",   "shed",   "force", "report",
	    "key",    "batch", "browse", "each",     "complete", "value",  "alive", "login",
	    "denials", "digest", "status", "reload", "stats", "dashboard"};
	static const char *const ops[] = {"acquire", "peek", "refund", "reset"};

	buffer_printf(log, "%s %s", ops[request->op], kinds[request->kind]);
	if (request->kind == REQUEST_LIMIT)
		buffer_printf(log, " %.*s/%.*s", (int)request->limit.len, request->limit.data,
		              (int)request->key.len, request->key.data);
	if (request->kind == REQUEST_KEY)
		buffer_printf(log, " %.*s", (int)request->key.len, request->key.data);
	if (request->kind == REQUEST_ADHOC)
		buffer_printf(log, " %.*s %lu %lu/%lus", (int)request->key.len, request->key.data,
		              (unsigned long)request->adhoc.burst, (unsigned long)request->adhoc.count,
		              (unsigned long)request->adhoc.period_s);
	if (request->origin && request->origin->login.secret.data) {
		const struct request_login *login = &request->origin->login;

		buffer_printf(log, " by %s[", login->user.data ? "user " : "");
		buffer_add_slice(log, login->user);
		buffer_add_text(log, "][");
		buffer_add_slice(log, login->secret);
		buffer_add_text(log, "]");
	}
	if (request->name.data) {
		buffer_add_text(log, " named [");
		buffer_add_slice(log, request->name);
		buffer_add_text(log, "]");
	}
	if (request->feedback)
		buffer_printf(log, " erases %d", request->feedback);
	if (request->kind == REQUEST_TOP)
		buffer_printf(log, " %lu", (unsigned long)request->top_count);
	for (size_t i = 0; i < request->attribute_count; i++)
		buffer_printf(log, " %s=%.*s", request->attributes[i].name,
		              (int)request->attributes[i].value_len, request->attributes[i].value);
	if (request->cost == REQUEST_COST_ALL)
		buffer_add_text(log, " cost all");
	else
		buffer_printf(log, " cost %lu", (unsigned long)request->cost);
	if (request->wait_ns == WEIR_ZERO)
		buffer_add_text(log, " no wait");
	else if (request->wait_ns > 0)
		buffer_printf(log, " wait %lu ns", (unsigned long)request->wait_ns);
	if (request->wants_permit)
		buffer_add_text(log, " with permit");
	if (request->permit.data) { /* copied, so that the address sanitizer looks */
		buffer_add_text(log, " of permit [");
		buffer_add_slice(log, request->permit);
		buffer_add_text(log, "]");
	}
	if (request->kind == REQUEST_REPORT)
		buffer_printf(log, " outcome %d after %lu ms", (int)request->outcome,
		              (unsigned long)request->latency_ms);
	if (request->from_proxy)
		buffer_printf(log, " for [%.*s]", (int)request->forwarded_for.len,
		              request->forwarded_for.data);
	buffer_add(log, "\n", 1);
	for (size_t i = 0; i < request->item_count; i++)
		drive_log(log, &request->items[i]);
}

/* The reply to `request`: `reply` itself, or as many of it as a batch has items. */
static inline struct reply drive_reply(const struct request *request, const struct reply *reply,
                                       struct arena *arena)
{
	struct reply *items = arena_array(arena, request->item_count, sizeof *items);

	for (size_t i = 0; i < request->item_count; i++)
		items[i] = drive_reply(&request->items[i], reply, arena);
	return request->kind == REQUEST_BATCH ? (struct reply){.items = items} : *reply;
}

/* A request and the memory that it points into. */
struct drive_taken {
	struct request request;
	struct arena arena;
	char *bytes;
};

static inline void drive_drop(struct drive_taken *taken)
{
	arena_free(&taken->arena);
	free(taken->bytes);
}

/* A line for each request that the client has cancelled. */
static inline void drive_cancelled(struct drive *drive)
{
	unsigned stream;

	while (drive->codec->next_cancelled &&
	       (stream = drive->codec->next_cancelled(drive->session)) != 0)
		buffer_printf(&drive->requests, "cancelled %u\n", stream);
}

/* Parses one request. To be dropped unless it is CODEC_MORE. */
static inline enum codec_result drive_take(struct drive *drive, struct drive_taken *taken)
{
	size_t consumed = SIZE_MAX, len = drive->pending.len;
	enum codec_result result;

	*taken = (struct drive_taken){.bytes = malloc(len)};
	if (len > 0)
		memcpy(taken->bytes, drive->pending.data, len);
	result = drive->codec->parse(drive->session, (struct slice){taken->bytes, len}, &consumed,
	                             &taken->arena, &taken->request);
	if (result == CODEC_MORE) {
		drive_drop(taken);
		return result;
	}
	assert_true(consumed <= len);
	buffer_consume(&drive->pending, consumed);
	if (result == CODEC_SKIPPED || taken->request.kind == REQUEST_INTERIM)
		drive_cancelled(drive);
	if (result == CODEC_REQUEST && taken->request.kind != REQUEST_LOCAL &&
	    taken->request.kind != REQUEST_INTERIM)
		drive_log(&drive->requests, &taken->request);
	return result;
}

/* Answers it, maybe later than others. */
static inline void drive_answer(struct drive *drive, struct drive_taken *taken)
{
	const struct codec *codec = drive->codec;
	struct request *request = &taken->request;
	struct buffer answers = {0};
	struct reply reply;

	if (request->kind == REQUEST_LOCAL || request->kind == REQUEST_BATCH)
		request->name = SLICE("default");
	reply = drive_reply(request, &drive->reply, &taken->arena);
	codec->reply(drive->session, request, &reply, &answers);
	if (codec->answers_in_any_order && codec->answers_in_any_order(drive->session))
		codec->frame_answers(drive->session, (struct slice){answers.data, answers.len},
		                     &drive->out);
	else
		buffer_add(&drive->out, answers.data, answers.len);
	buffer_free(&answers);
	drive->closed = request->close_after;
}

/* Parses and answers one request; false when there is none yet. */
static inline bool drive_one(struct drive *drive)
{
	struct drive_taken taken;
	enum codec_result result = drive_take(drive, &taken);

	if (result == CODEC_MORE)
		return false;
	if (result == CODEC_REQUEST)
		drive_answer(drive, &taken);
	drive_drop(&taken);
	return true;
}

static inline void drive_feed(struct drive *drive, struct slice bytes)
{
	if (drive->closed)
		return;
	buffer_add_slice(&drive->pending, bytes);
	while (!drive->closed && drive_one(drive))
		;
}

static inline void drive_close(struct drive *drive)
{
	if (drive->codec->close)
		drive->codec->close(drive->session);
	free(drive->session);
	buffer_free(&drive->pending);
	buffer_free(&drive->out);
	buffer_free(&drive->requests);
}

/* `expected` may be NULL: anything. */
static inline void assert_bytes(struct buffer *found, const char *expected, const char *name)
{
	buffer_add(found, "", 1);
	found->len--;
	if (expected && strcmp(found->data, expected) != 0)
		fail_msg("%s:\nexpected %s\nfound    %s", name, expected, found->data);
}

static inline void assert_same(const struct buffer *found, const struct buffer *expected)
{
	assert_int_equal(found->len, expected->len);
	if (found->len > 0)
		assert_memory_equal(found->data, expected->data, found->len);
}

/*
 * `bytes` whole, byte by byte, and in two parts cut at every place: the
 * requests and the replies are the same each time, and as expected where that
 * is not NULL. Returns whether the connection was to be closed.
 */
static inline bool drive_all(const struct codec *codec, const struct codec_bounds *bounds,
                             const struct reply *reply, struct slice bytes, const char *requests,
                             const char *out)
{
	struct drive whole;
	bool closed;

	drive_open(&whole, codec, bounds, reply);
	drive_feed(&whole, bytes);
	assert_bytes(&whole.out, out, bytes.data);
	assert_bytes(&whole.requests, requests, bytes.data);
	for (size_t cut = 0; cut < bytes.len && bytes.len < 4096; cut++) {
		struct drive split;

		drive_open(&split, codec, bounds, reply);
		if (cut == 0) {
			for (size_t i = 0; i < bytes.len; i++)
				drive_feed(&split, (struct slice){bytes.data + i, 1});
		} else {
			drive_feed(&split, (struct slice){bytes.data, cut});
			drive_feed(&split, (struct slice){bytes.data + cut, bytes.len - cut});
		}
		assert_same(&split.out, &whole.out);
		assert_same(&split.requests, &whole.requests);
		assert_int_equal(split.closed, whole.closed);
		drive_close(&split);
	}
	closed = whole.closed;
	drive_close(&whole);
	return closed;
}

#endif
