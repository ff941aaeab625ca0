/* resp_codec.c: the codec of RESP: reads commands as requests, and writes their replies. */
#include "proto/resp/resp_session.h"

#include "base/error.h"
#include "base/number.h"
#include "proto/adhoc_command.h"
#include "proto/resp/resp_call.h"
#include "proto/resp/resp_multi.h"

/* Reads a command that was just received: executes it, queues it, or fills in its request. */
static int read_new_command(struct resp_session *session, struct slice data, struct fill *fill,
                            const struct slice *args, size_t n)
{
	const struct resp_spec *spec = resp_check_words(fill, args, n);
	int status;

	if (!spec)
		return fill->error.status;
	resp_set_spec(fill, spec);
	if (spec->execute)
		spec->execute(session, fill);
	else if (session->multi)
		return resp_multi_add(session, fill, spec, args, n);
	if (fill->request->reply_code < 0 || (spec->execute && !spec->run))
		return 0;
	status = resp_read_command(fill, spec, args, n);
	if (status == 0 && spec->key != 0 && !spec->keys && data.data[0] == '*' &&
	    !fill->request->permit.data)
		resp_template_learn(&session->form, data, args, spec->key, fill->request);
	return status;
}

__attribute__((noinline)) static enum codec_result parse_slow(struct resp_session *session,
                                                              struct slice data, size_t *consumed,
                                                              struct arena *arena,
                                                              struct request *request)
{
	static const struct request_origin browser = {.is_from_foreign_page = true};
	struct slice args[RESP_WORDS_MAX];
	struct resp_command command = {.args = args, .capacity = RESP_WORDS_MAX};
	struct fill fill;
	enum resp_result result =
	    resp_read(&session->reader, session->bounds.request_max, data, arena, &command, consumed);
	int status = 0;

	if (result == RESP_MORE)
		return CODEC_MORE;
	if (result == RESP_SKIPPED || (result == RESP_COMMAND && command.count == 0))
		return CODEC_SKIPPED;
	fill_begin(&fill, request, &session->bounds, arena);
	*request = (struct request){.kind = REQUEST_LOCAL, .cost = 1};
	request->origin = result == RESP_FOREIGN ? &browser : NULL;
	request->close_after = result == RESP_BROKEN || result == RESP_FOREIGN;
	if (request->close_after)
		status = error_set(&fill.error, WEIR_ESYNTAX, "%s", command.error);
	else if (result == RESP_TOO_LONG)
		status = error_set(&fill.error, WEIR_ELONG,
		                   "expected a command of at most %zu bytes, found a longer one",
		                   session->bounds.request_max);
	else
		status = read_new_command(session, (struct slice){data.data, *consumed}, &fill, args,
		                          command.count);
	if (status != 0) {
		resp_refuse(&fill);
		resp_multi_break(session);
	}
	return CODEC_REQUEST;
}

static enum codec_result parse(void *state, struct slice data, size_t *consumed,
                               struct arena *arena, struct request *request)
{
	struct resp_session *session = state;

	if (resp_template_match(&session->form, &session->reader, &session->bounds, data, consumed,
	                        request))
		return CODEC_REQUEST;
	return parse_slow(session, data, consumed, arena, request);
}

static void write_status(const struct request *request, const struct reply *reply,
                         struct buffer *out)
{
	const char *code = reply->status == WEIR_EPERM      ? "NOPERM"
	                   : reply->status != WEIR_EAUTH    ? "ERR"
	                   : request->kind == REQUEST_LOGIN ? "WRONGPASS"
	                                                    : "NOAUTH";

	resp_write_error(out, code,
	                 slice_of(reply->message ? reply->message : weir_strerror(reply->status)));
}

/* Writes the number of keys that have, or had, a state. */
static void write_state_count(const struct request *request, const struct reply *answer,
                              struct buffer *out)
{
	int64_t count = 0;

	for (size_t i = 0; i < request->item_count; i++) {
		if (answer->items[i].status != 0) {
			write_status(&request->items[i], &answer->items[i], out);
			return;
		}
		count += answer->items[i].has_state;
	}
	resp_write_integer(out, count);
}

static void reply_to(void *state, const struct request *request, const struct reply *answer,
                     struct slice user, struct buffer *out);

/* Writes the replies of an EXEC. */
static void reply_to_items(void *state, const struct request *request, const struct reply *answer,
                           struct buffer *out)
{
	resp_write_length(out, '*', request->item_count);
	for (size_t i = 0; i < request->item_count; i++)
		reply_to(state, &request->items[i], &answer->items[i], request->name, out);
}

static void reply_to(void *state, const struct request *request, const struct reply *answer,
                     struct slice user, struct buffer *out)
{
	const struct resp_spec *spec;
	size_t count;

	if (request->reply_code < 0) {
		if (request->reply_code == RESP_REPLY_ERROR)
			resp_write_error(out, "ERR", request->local_text);
		else
			buffer_add_slice(out, request->local_text);
		return;
	}
	spec = &resp_specs(&count)[request->reply_code];
	if (answer->status != 0 && request->kind != REQUEST_LOCAL &&
	    !(request->kind == REQUEST_ADHOC && adhoc_is_decided(answer)))
		write_status(request, answer, out);
	else if (spec->run)
		spec->run(&(struct resp_call){state, request->words, request->word_count, user, out});
	else if (spec->write)
		spec->write(answer, out);
	else if (spec->keys)
		write_state_count(request, answer, out);
	else
		reply_to_items(state, request, answer, out);
}

static void reply(void *state, const struct request *request, const struct reply *answer,
                  struct buffer *out)
{
	reply_to(state, request, answer, request->name, out);
}

static void open_resp_session(void *state, const struct codec_bounds *bounds, uint64_t id)
{
	*(struct resp_session *)state =
	    (struct resp_session){.bounds = *bounds, .id = id, .protocol = 2};
}

static void close_session(void *state)
{
	resp_multi_end(state);
}

static size_t queued(const void *state)
{
	return resp_multi_requests(state);
}

const struct codec resp_codec = {
    .name = "resp",
    .session_size = sizeof(struct resp_session),
    .open = open_resp_session,
    .close = close_session,
    .parse = parse,
    .next_request_count = queued,
    .reply = reply,
};
