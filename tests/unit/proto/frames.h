/*
 * frames.h: a client of HTTP/2 in front of drive.h: it makes frames, and reads those that come.
 *
 * Its headers are literals, which no other header depends on, so a test may leave any out.
 */
#ifndef TESTS_UNIT_PROTO_FRAMES_H
#define TESTS_UNIT_PROTO_FRAMES_H

#include "drive.h"

#include <nghttp2/nghttp2.h>

#include "proto/http2/http2.h"

#define UNKNOWN_FRAME 0x42
#define END           NGHTTP2_FLAG_END_STREAM
#define WHOLE         NGHTTP2_FLAG_END_HEADERS
/* The bytes of a header of frame_get without its target: names and values, and 4 for each field. */
#define GET_KEPT (7 + 3 + 7 + 4 + 10 + 1 + 5 + 4 * 4)

struct peer {
	struct drive drive;
	struct buffer sent; /* to be sent */
	struct buffer seen; /* a line for each frame that came, since the last look */
	nghttp2_hd_inflater *inflater;
};

static inline void frame(struct buffer *to, unsigned type, unsigned flags, uint32_t stream,
                         struct slice payload)
{
	const unsigned char head[] = {(unsigned char)(payload.len >> 16),
	                              (unsigned char)(payload.len >> 8),
	                              (unsigned char)payload.len,
	                              (unsigned char)type,
	                              (unsigned char)flags,
	                              (unsigned char)(stream >> 24),
	                              (unsigned char)(stream >> 16),
	                              (unsigned char)(stream >> 8),
	                              (unsigned char)stream};

	buffer_add(to, head, sizeof head);
	buffer_add_slice(to, payload);
}

/* A payload of one number, as of RST_STREAM and WINDOW_UPDATE. */
static inline void frame_number(struct buffer *to, unsigned type, uint32_t stream, uint32_t number)
{
	const char payload[] = {(char)(number >> 24), (char)(number >> 16), (char)(number >> 8),
	                        (char)number};

	frame(to, type, 0, stream, (struct slice){payload, sizeof payload});
}

static inline void text_add(struct buffer *block, struct slice text)
{
	size_t left = text.len;
	unsigned char byte = left < 127 ? (unsigned char)left : 127;

	buffer_add(block, &byte, 1);
	if (byte == 127) {
		for (left -= 127; left > 127; left >>= 7) {
			byte = (unsigned char)(left | 128);
			buffer_add(block, &byte, 1);
		}
		byte = (unsigned char)left;
		buffer_add(block, &byte, 1);
	}
	buffer_add_slice(block, text);
}

static inline void field_add(struct buffer *block, struct slice name, struct slice value)
{
	buffer_add(block, "", 1);
	text_add(block, name);
	text_add(block, value);
}

static inline void request_add(struct buffer *block, const char *method, struct slice target)
{
	field_add(block, SLICE(":method"), slice_of(method));
	field_add(block, SLICE(":scheme"), SLICE("http"));
	field_add(block, SLICE(":authority"), SLICE("h"));
	field_add(block, SLICE(":path"), target);
}

static inline void frame_request(struct buffer *to, uint32_t stream, const char *method,
                                 const char *target, unsigned flags)
{
	struct buffer block = {0};

	request_add(&block, method, slice_of(target));
	frame(to, NGHTTP2_HEADERS, flags | WHOLE, stream, (struct slice){block.data, block.len});
	buffer_free(&block);
}

static inline void frame_get(struct buffer *to, uint32_t stream, const char *target)
{
	frame_request(to, stream, "GET", target, END);
}

/* A body of `len` bytes, in as many frames as it takes. */
static inline void frame_body(struct buffer *to, uint32_t stream, size_t len, bool ends)
{
	static const char zeros[16384];

	for (; len > sizeof zeros; len -= sizeof zeros)
		frame(to, NGHTTP2_DATA, 0, stream, (struct slice){zeros, sizeof zeros});
	frame(to, NGHTTP2_DATA, ends ? END : 0, stream, (struct slice){zeros, len});
}

static inline uint32_t number_at(const uint8_t *at)
{
	return (uint32_t)at[0] << 24 | (uint32_t)at[1] << 16 | (uint32_t)at[2] << 8 | at[3];
}

/* The status that a block begins with. */
static inline void see_status(struct peer *peer, const uint8_t *block, size_t len)
{
	nghttp2_nv field;
	int flags = 0;

	while (len > 0 || !(flags & NGHTTP2_HD_INFLATE_FINAL)) {
		ssize_t n;

		flags = 0;
		n = nghttp2_hd_inflate_hd2(peer->inflater, &field, &flags, block, len, 1);
		assert_true(n >= 0);
		block += n;
		len -= (size_t)n;
		if (flags & NGHTTP2_HD_INFLATE_EMIT && field.name[0] == ':')
			buffer_printf(&peer->seen, " %.*s", (int)field.valuelen, (const char *)field.value);
	}
	nghttp2_hd_inflate_end_headers(peer->inflater);
}

static inline void see_frame(struct peer *peer, const uint8_t *head, const uint8_t *payload,
                             size_t len)
{
	static const char *const names[] = {"DATA",       "HEADERS",  "PRIORITY",
	                                    "RST_STREAM", "SETTINGS", "PUSH_PROMISE",
	                                    "PING",       "GOAWAY",   "WINDOW_UPDATE"};
	unsigned type = head[3], flags = head[4];

	if (type == NGHTTP2_SETTINGS || type == NGHTTP2_WINDOW_UPDATE)
		return;
	buffer_printf(&peer->seen, "%s", names[type]);
	if (type != NGHTTP2_GOAWAY)
		buffer_printf(&peer->seen, " %u", number_at(head + 5));
	if (type == NGHTTP2_HEADERS)
		see_status(peer, payload, len);
	else if (type == NGHTTP2_DATA && len > 0 && payload[0] == '{')
		buffer_add_text(&peer->seen, " JSON");
	else if (type == NGHTTP2_DATA && len < 20)
		buffer_printf(&peer->seen, " %.*s", (int)len, (const char *)payload);
	else if (type == NGHTTP2_DATA)
		buffer_printf(&peer->seen, " %zu bytes", len);
	else if (type == NGHTTP2_RST_STREAM)
		buffer_printf(&peer->seen, " %s", nghttp2_http2_strerror(number_at(payload)));
	else if (type == NGHTTP2_GOAWAY)
		buffer_printf(&peer->seen, " %u %s", number_at(payload),
		              nghttp2_http2_strerror(number_at(payload + 4)));
	if ((type == NGHTTP2_DATA || type == NGHTTP2_HEADERS) && flags & END)
		buffer_add_text(&peer->seen, " end");
	buffer_add_text(&peer->seen, "\n");
}

/* Reads what came; returns a line for each frame but those of settings and windows. */
static inline const char *peer_look(struct peer *peer)
{
	struct buffer *out = &peer->drive.out;
	size_t at = 0;

	peer->seen.len = 0;
	while (at < out->len) {
		const uint8_t *head = (const uint8_t *)out->data + at;
		size_t len = (size_t)head[0] << 16 | (size_t)head[1] << 8 | head[2];

		assert_true(at + 9 + len <= out->len);
		see_frame(peer, head, head + 9, len);
		at += 9 + len;
	}
	out->len = 0;
	buffer_add(&peer->seen, "", 1);
	return peer->seen.data;
}

/* Sends what was made, and answers all of it. */
static inline const char *peer_send(struct peer *peer)
{
	drive_feed(&peer->drive, (struct slice){peer->sent.data, peer->sent.len});
	peer->sent.len = 0;
	return peer_look(peer);
}

/* Sends the frames and takes their first request. Returns false if there is none. */
static inline bool peer_take(struct peer *peer, struct drive_taken *taken)
{
	enum codec_result result;

	buffer_add(&peer->drive.pending, peer->sent.data, peer->sent.len);
	peer->sent.len = 0;
	while (!peer->drive.closed && (result = drive_take(&peer->drive, taken)) != CODEC_MORE) {
		if (result == CODEC_REQUEST && taken->request.kind != REQUEST_INTERIM)
			return true;
		if (result == CODEC_REQUEST)
			drive_answer(&peer->drive, taken);
		drive_drop(taken);
	}
	return false;
}

/* The answer has this body, if the request was for metrics. */
static inline const char *peer_answer(struct peer *peer, struct drive_taken *taken,
                                      const char *body)
{
	peer->drive.reply.body = slice_of(body);
	drive_answer(&peer->drive, taken);
	drive_drop(taken);
	return peer_look(peer);
}

/* Opens a connection and exchanges settings; the client sends none if `settings` is NULL. */
static inline void peer_open(struct peer *peer, const struct codec_bounds *bounds,
                             const struct slice *settings)
{
	static const struct reply passed = {
	    .ready = true, .body = {"up\n", 3}, .decision = {.allowed = true}};

	*peer = (struct peer){0};
	assert_int_equal(nghttp2_hd_inflate_new(&peer->inflater), 0);
	drive_open(&peer->drive, &http_codec, bounds, &passed);
	buffer_add_slice(&peer->sent, HTTP2_PREFACE);
	if (settings) {
		frame(&peer->sent, NGHTTP2_SETTINGS, 0, 0, *settings);
		frame(&peer->sent, NGHTTP2_SETTINGS, NGHTTP2_FLAG_ACK, 0, (struct slice){NULL, 0});
	}
	assert_string_equal(peer_send(peer), "");
}

static inline void peer_close(struct peer *peer)
{
	nghttp2_hd_inflate_del(peer->inflater);
	drive_close(&peer->drive);
	buffer_free(&peer->sent);
	buffer_free(&peer->seen);
}

#endif
