/*
 * http2.h: reads requests from an HTTP/2 connection and writes its answers, with nghttp2.
 *
 * Each call of http2_parse gives nghttp2 one frame, so it returns one request at most. A header
 * becomes fields, which http_request.h reads as those of HTTP/1. An answer is stored as fields and
 * a body (http2_store_answer) and becomes frames when it is sent (http2_frame_answers). The reason
 * is that frames must be sent in the order in which nghttp2 makes them, while some answers are
 * delayed.
 *
 * A stream stores the part of its answer that the peer's flow-control window does not admit.
 */
#ifndef PROTO_HTTP2_H
#define PROTO_HTTP2_H

#include "proto/codec.h"

#define HTTP2_PREFACE SLICE("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")

/* Requests that one connection may have open at once. */
#define HTTP2_STREAMS_MAX 100
/*
 * Memory for requests whose bodies have not ended, for one connection; beyond it streams are reset.
 * A hundred small requests fit.
 */
#define HTTP2_INPUT_MAX ((size_t)192 << 10)
/* New streams are refused once so many bytes of answers wait for the peer's windows. */
#define HTTP2_UNSENT_MAX ((size_t)256 << 10)
/*
 * Each frame costs 1 of the peer's budget, and a stream that it resets before the answer
 * HTTP2_RESET_COST. A request restores HTTP2_REQUEST_CREDIT. A connection whose budget is used up
 * counts as a flood and ends.
 */
#define HTTP2_FLOOD_BUDGET   16384
#define HTTP2_RESET_COST     128
#define HTTP2_REQUEST_CREDIT 64

struct http2;

/** Opens a session, whose first bytes are the preface. Returns NULL if there is no memory. */
struct http2 *http2_open(const struct codec_bounds *bounds);
void http2_close(struct http2 *http2);
enum codec_result http2_parse(struct http2 *http2, struct slice data, size_t *consumed,
                              struct arena *arena, struct request *request);

/* These do what struct codec says. */

void http2_repeat_request(struct http2 *http2);
void http2_append_goodbye(struct http2 *http2, struct buffer *out);
uint64_t http2_unfinished_request(const struct http2 *http2);
unsigned http2_next_cancelled(struct http2 *http2);
void http2_find_cancellations(struct http2 *http2, struct slice data);
void http2_store_answer(const struct request *request, const struct reply *reply,
                        struct buffer *out);
void http2_frame_answers(struct http2 *http2, struct slice answers, struct buffer *out);

#endif
