/*
 * fuzz_codec.h: a codec over hostile bytes.
 *
 * The first byte chooses where the rest is cut. However the bytes are cut, the
 * requests are consumed and answered alike: the replies to the whole and to
 * the two parts are compared.
 */
#ifndef TESTS_FUZZ_FUZZ_CODEC_H
#define TESTS_FUZZ_FUZZ_CODEC_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "proto/codec.h"

static const struct forwarded_attribute fuzz_attributes[] = {
    {"header.a", FORWARDED_FROM_HEADER, {"a", 1}},
    {"cookie.c", FORWARDED_FROM_COOKIE, {"c", 1}},
    {"query.q", FORWARDED_FROM_QUERY, {"q", 1}},
};
static const struct forwarded_list fuzz_list = {fuzz_attributes, 3};
static const struct codec_bounds fuzz_bounds = {64, 1024, 512, 8, 4, &fuzz_list};

/* The requests in `request`, itself among them; aborts where one is past its bounds. */
static size_t fuzz_check(const struct request *request)
{
	size_t n = request->kind != REQUEST_BATCH;

	if (request->kind != REQUEST_LOCAL && request->key.len > fuzz_bounds.key_max)
		abort();
	for (size_t i = 0; i < request->item_count; i++)
		n += fuzz_check(&request->items[i]);
	return n;
}

/* `reply`, and to a batch one for each of its items. */
static struct reply fuzz_reply(const struct request *request, const struct reply *reply,
                               struct arena *arena)
{
	struct reply *items = arena_array(arena, request->item_count, sizeof *items), all = *reply;

	for (size_t i = 0; i < request->item_count; i++)
		items[i] = fuzz_reply(&request->items[i], reply, arena);
	all.items = items;
	return all;
}

/* Answers of a session that streams become frames; all others are sent as they are. */
static void fuzz_answer(const struct codec *codec, void *session, const struct request *request,
                        const struct reply *reply, struct buffer *out)
{
	struct buffer answer = {0};

	codec->reply(session, request, reply, &answer);
	if (codec->answers_in_any_order && codec->answers_in_any_order(session))
		codec->frame_answers(session, (struct slice){answer.data, answer.len}, out);
	else
		buffer_add(out, answer.data, answer.len);
	buffer_free(&answer);
}

/*
 * Puts the request back, if there is one of a stream: it must come again with as many bytes.
 * The bytes are elsewhere then.
 */
static void fuzz_again(const struct codec *codec, void *session, struct slice bytes,
                       size_t *consumed, struct arena *arena, struct request *request)
{
	const struct request before = *request;
	size_t was = *consumed;

	if (request->stream == 0)
		return;
	codec->repeat_request(session);
	if (codec->parse(session, bytes, consumed, arena, request) != CODEC_REQUEST ||
	    *consumed != was || request->kind != before.kind || request->stream != before.stream)
		abort();
}

/* Parses and answers all that is there. False when the connection was to be closed. */
static bool fuzz_feed(const struct codec *codec, void *session, struct buffer *pending,
                      struct slice bytes, struct buffer *out)
{
	const struct reply any = {.decision = {.limit = "l", .rule = "r", .result = "{\"a\":1}"},
	                          .policy = "default-src 'none'",
	                          .permit = SLICE("p-_1")};
	enum codec_result result = CODEC_REQUEST;
	bool open = true;

	buffer_add_slice(pending, bytes);
	while (open && result != CODEC_MORE) {
		struct arena arena = {0};
		struct request request;
		struct reply reply;
		size_t consumed = SIZE_MAX;
		char *copy = malloc(pending->len);

		if (pending->len > 0)
			memcpy(copy, pending->data, pending->len);
		result =
		    codec->parse(session, (struct slice){copy, pending->len}, &consumed, &arena, &request);
		if (result == CODEC_REQUEST)
			fuzz_again(codec, session, (struct slice){copy, pending->len}, &consumed, &arena,
			           &request);
		if (result == CODEC_MORE && codec->find_cancellations)
			codec->find_cancellations(session, (struct slice){copy, pending->len});
		if (codec->next_cancelled && codec->next_cancelled(session) != 0 &&
		    !(result == CODEC_REQUEST && request.close_after)) /* all are answered at once */
			abort();
		if (result == CODEC_SKIPPED) {
			if (consumed == 0 || consumed > pending->len)
				abort();
			buffer_consume(pending, consumed);
		} else if (result != CODEC_MORE) {
			if (consumed > pending->len || fuzz_check(&request) > fuzz_bounds.batch_max)
				abort();
			reply = fuzz_reply(&request, &any, &arena);
			fuzz_answer(codec, session, &request, &reply, out);
			buffer_consume(pending, consumed);
			open = !request.close_after;
		}
		free(copy);
		arena_free(&arena);
	}
	return open;
}

static void fuzz_run(const struct codec *codec, struct slice bytes, size_t cut, struct buffer *out)
{
	void *session = malloc(codec->session_size);
	struct buffer pending = {0};

	codec->open(session, &fuzz_bounds, 7);
	if (fuzz_feed(codec, session, &pending, (struct slice){bytes.data, cut}, out))
		fuzz_feed(codec, session, &pending, (struct slice){bytes.data + cut, bytes.len - cut}, out);
	if (codec->close)
		codec->close(session);
	free(session);
	buffer_free(&pending);
}

/* The interim reply depends on when a body arrives: it is left out of the comparison. */
static void fuzz_drop(struct buffer *out, struct slice interim)
{
	char *at;

	while (interim.len > 0 && out->len > 0 &&
	       (at = memmem(out->data, out->len, interim.data, interim.len))) {
		memmove(at, at + interim.len, (size_t)(out->data + out->len - at) - interim.len);
		out->len -= interim.len;
	}
}

static int fuzz_codec(const struct codec *codec, struct slice interim, const uint8_t *data,
                      size_t size)
{
	struct slice bytes = {(const char *)data + 1, size - 1};
	struct buffer whole = {0}, parts = {0};

	if (size == 0)
		return 0;
	fuzz_run(codec, bytes, bytes.len, &whole);
	fuzz_run(codec, bytes, bytes.len * data[0] / 256, &parts);
	fuzz_drop(&whole, interim);
	fuzz_drop(&parts, interim);
	if (whole.len != parts.len || (whole.len > 0 && memcmp(whole.data, parts.data, whole.len) != 0))
		abort();
	buffer_free(&whole);
	buffer_free(&parts);
	return 0;
}

#endif
