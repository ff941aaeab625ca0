/* http_koala_reply.c: writes the bodies of answers as clients of Koala, another rate limiter,
 * expect them. */
#include "proto/http/http_session.h"

#define OK_BODY "{\"err_no\":0,\"err_msg\":\"OK\"}"

void http_koala_add_error(struct buffer *out, enum http_error error, struct slice message)
{
	buffer_add_text(out, error == HTTP_ERROR_UNKNOWN_RULE ? "{\"err_no\":-2" : "{\"err_no\":-1");
	buffer_add_text(out, ",\"err_msg\":\"");
	buffer_add_json(out, message);
	buffer_add_text(out, "\"}");
}

static void add_results(struct buffer *out, const struct reply *reply)
{
	buffer_add(out, "[", 1);
	for (size_t i = 0; i < reply->result_count; i++) {
		if (i > 0)
			buffer_add(out, ",", 1);
		buffer_add_slice(out, reply->results[i]);
	}
	buffer_add(out, "]", 1);
}

static void add_used(struct buffer *out, uint64_t used)
{
	buffer_add_text(out, "{\"err_no\":0,\"err_msg\":\"\",\"cache_val\":");
	buffer_add_u64(out, used);
	buffer_add(out, "}", 1);
}

/* Begins an item of a batch. Writes its name twice: some clients read "ID" and others "Id". */
void http_koala_begin_item(struct buffer *out, const struct request *item)
{
	buffer_add_text(out, "{\"ID\":\"");
	buffer_add_json(out, item->name);
	buffer_add_text(out, "\",\"Id\":\"");
	buffer_add_json(out, item->name);
	buffer_add_text(out, "\",\"Result\":");
}

/* Appends the body, and returns the status of the answer. */
const char *http_koala_add_body(const struct request *request, const struct reply *reply,
                                struct buffer *out)
{
	switch ((enum request_kind)request->kind) {
	case REQUEST_EACH_LIMIT:
		buffer_add_text(out, OK_BODY);
		break;
	case REQUEST_BROWSE_ALL:
		add_results(out, reply);
		break;
	case REQUEST_VALUE:
		add_used(out, reply->used);
		break;
	case REQUEST_ALIVE:
		buffer_add_text(out, reply->ready ? "{\"errno\":0,\"errmsg\":\"OK!\"}"
		                                  : "{\"errno\":-1,\"errmsg\":\"redis-error!\"}");
		return reply->ready ? "200 OK" : "500 Internal Server Error";
	default:
		buffer_add_slice(out, reply->body);
		break;
	}
	return "200 OK";
}
