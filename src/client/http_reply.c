/* http_reply.c: reads the reply to an HTTP/1 request with llhttp, and bounds its size. */
#include "client/http_reply.h"

#include "base/error.h"

/* Also bounds the bytes of chunk sizes and trailers: chunks of one byte take six. */
#define FRAMING_FACTOR 6

static int on_head_complete(llhttp_t *parser)
{
	struct http_reply *reply = parser->data;

	reply->status = llhttp_get_status_code(parser);
	reply->has_head = true;
	/* 101 begins another protocol, which was not asked for. */
	return reply->status == 101 ? HPE_USER : HPE_OK;
}

static int on_reply_body(llhttp_t *parser, const char *at, size_t len)
{
	struct http_reply *reply = parser->data;

	buffer_add(&reply->body, at, len);
	return reply->body.failed ? HPE_USER : HPE_OK;
}

static int on_reply_complete(llhttp_t *parser)
{
	struct http_reply *reply = parser->data;

	reply->has_head = false;
	if (reply->status >= 100 && reply->status < 200)
		return HPE_OK; /* another reply follows */
	reply->has_ended = true;
	return HPE_PAUSED;
}

static const llhttp_settings_t settings = {
    .on_headers_complete = on_head_complete,
    .on_body = on_reply_body,
    .on_message_complete = on_reply_complete,
};

void http_reply_open(struct http_reply *reply, size_t body_max)
{
	*reply = (struct http_reply){.body.max = body_max};
	llhttp_init(&reply->parser, HTTP_RESPONSE, &settings);
	reply->parser.data = reply;
}

void http_reply_free(struct http_reply *reply)
{
	buffer_free(&reply->body);
}

static int refuse_long_reply(const struct http_reply *reply, struct weir_error *error)
{
	return error_set(error, WEIR_ELONG, "expected an answer of at most %zu bytes, found more",
	                 reply->body.max);
}

/* Bounds the bytes that are not part of the body. */
static bool has_long_framing(struct http_reply *reply, size_t len)
{
	reply->received += len;
	reply->head_received = reply->has_head ? 0 : reply->head_received + len;
	return reply->received > HTTP_REPLY_HEAD_MAX + FRAMING_FACTOR * reply->body.max;
}

int http_reply_read(struct http_reply *reply, struct slice bytes, struct weir_error *error)
{
	llhttp_errno_t result;

	if (reply->has_ended)
		return WEIR_OK;
	if (has_long_framing(reply, bytes.len))
		return refuse_long_reply(reply, error);
	result = llhttp_execute(&reply->parser, bytes.data, bytes.len);
	if (reply->has_ended)
		return WEIR_OK;
	if (reply->body.failed)
		return refuse_long_reply(reply, error);
	if (result != HPE_OK)
		return error_set(error, WEIR_ESYNTAX, "expected an answer of HTTP/1, found: %s",
		                 result == HPE_USER ? "a change of the protocol"
		                                    : llhttp_get_error_reason(&reply->parser));
	if (!reply->has_head && reply->head_received > HTTP_REPLY_HEAD_MAX)
		return error_set(error, WEIR_ELONG,
		                 "expected the header of an answer within %zu bytes, found more",
		                 HTTP_REPLY_HEAD_MAX);
	return WEIR_OK;
}

int http_reply_end(struct http_reply *reply, struct weir_error *error)
{
	if (!reply->has_ended && reply->has_head)
		llhttp_finish(&reply->parser);
	return reply->has_ended
	           ? WEIR_OK
	           : error_set(error, WEIR_EIO,
	                       "the server closed the connection before the end of its answer");
}
