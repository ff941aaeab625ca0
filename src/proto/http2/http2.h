/*
 * http2.h: a connection that speaks HTTP/2, with nghttp2.
 *
 * Each call of parse gives nghttp2 one frame, so a call brings one request at most. A
 * header is gathered as fields, and the routes of HTTP/1 read it (http_request.h).
 * An answer is kept as fields and a body, and becomes frames when it is sent:
 * frames must leave in the order in which nghttp2 makes them, and some answers wait.
 *
 * A stream keeps the part of its answer that the peer's window does not admit.
 */
#ifndef PROTO_HTTP2_H
#define PROTO_HTTP2_H

#include "proto/codec.h"

#define HTTP2_PREFACE SLICE("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")

/* Requests that one connection may have open at once. */
#define HTTP2_STREAMS_MAX 100
/*
 * Memory of requests without the end of their bodies, for one connection; past it streams are
 * reset. A hundred small ones fit.
 */
#define HTTP2_INPUT_MAX ((size_t)192 << 10)
/* From so many bytes of answers that the peer's windows do not admit, it gets no new streams. */
#define HTTP2_UNSENT_MAX ((size_t)256 << 10)
/*
 * A peer has a budget: each frame costs 1, and a stream that it resets before the answer
 * HTTP2_RESET_COST; a request gives HTTP2_REQUEST_CREDIT back. A peer that has nothing left floods.
 */
#define HTTP2_FLOOD_BUDGET   16384
#define HTTP2_RESET_COST     128
#define HTTP2_REQUEST_CREDIT 64

struct http2;

/** The preface follows. Returns NULL if there is no memory. */
struct http2 *http2_open(const struct codec_bounds *bounds);
void http2_close(struct http2 *http2);
enum codec_result http2_parse(struct http2 *http2, struct slice data, size_t *consumed,
                              struct arena *arena, struct request *request);
/** The next call of http2_parse brings the same request as the last. */
void http2_put_back(struct http2 *http2);
/** As of struct codec. */
void http2_stop(struct http2 *http2, struct buffer *out);
uint64_t http2_unfinished(const struct http2 *http2);
unsigned http2_cancelled(struct http2 *http2);
void http2_look_ahead(struct http2 *http2, struct slice data);
/** As codec.h has it. */
void http2_reply(const struct request *request, const struct reply *reply, struct buffer *out);
void http2_send(struct http2 *http2, struct slice answers, struct buffer *out);

#endif
