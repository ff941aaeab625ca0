/*
 * resp_codec.c: the codec of RESP, the protocol of Redis: reads commands from the bytes of a
 * connection as requests for the server, and writes the replies.
 */
#include "proto/resp/resp_session.h"

#include "base/error.h"
#include "base/number.h"
#include "proto/adhoc_command.h"
#include "proto/resp/resp_call.h"
#include "proto/resp/resp_multi.h"

/*
 * A command that is read again and again, with another key each time, may be learned as a template;
 * not an inline command, nor one whose permit would be in the template.
 */
static bool can_be_template(const struct resp_spec *spec, const struct request *request,
                            struct slice bytes)
{
	bool has_one_key = spec->key_index != 0 && !spec->has_many_keys;

	return has_one_key && bytes.data[0] == '*' && !request->permit.data;
}

/*
 * Handles a command that has just arrived in `bytes`, with `n` words: fills in its request, queues
 * it in an open transaction, or executes it. Returns 0, or a status with fill->error set.
 */
static int read_new_command(struct resp_session *session, struct slice bytes, struct fill *fill,
                            const struct slice *args, size_t n)
{
	const struct resp_spec *spec = resp_check_words(fill, args, n);
	bool is_complete; /* the execution has filled in the answer, or the items of EXEC */
	int status;

	if (!spec)
		return fill->error.status;
	resp_set_spec(fill, spec);
	if (spec->execute_when_read)
		spec->execute_when_read(session, fill);
	else if (session->multi)
		return resp_multi_add(session, fill, spec, args, n);
	is_complete = fill->request->reply_code < 0 || (spec->execute_when_read && !spec->answer);
	if (is_complete)
		return 0;
	status = resp_read_command(fill, spec, args, n);
	if (status == 0 && can_be_template(spec, fill->request, bytes))
		resp_template_learn(&session->last_command, bytes, args, spec->key_index, fill->request);
	return status;
}

/* Reads a command with all checks; not inlined, so that the fast path stays short. */
__attribute__((noinline)) static enum codec_result parse_slow(struct resp_session *session,
                                                              struct slice data, size_t *consumed,
                                                              struct arena *arena,
                                                              struct request *request)
{
	static const struct request_origin foreign_page = {.is_from_foreign_page = true};
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
	request->origin = result == RESP_FOREIGN ? &foreign_page : NULL;
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

/* Most commands differ from the last one of the connection in their key alone: the fast path. */
static enum codec_result parse(void *state, struct slice data, size_t *consumed,
                               struct arena *arena, struct request *request)
{
	struct resp_session *session = state;

	if (resp_template_match(&session->last_command, &session->reader, &session->bounds, data,
	                        consumed, request))
		return CODEC_REQUEST;
	return parse_slow(session, data, consumed, arena, request);
}

/* Writes an error: with the codes by which clients of Redis recognize missing permissions. */
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

/* Answers DEL and EXISTS: the number of keys that have, or had, a state; or the first error. */
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

/*
 * Writes the reply of one command: an error, the codec's own answer, or the server's decision.
 * `user` is the name by which the connection has logged in.
 */
static void reply_to(void *state, const struct request *request, const struct reply *answer,
                     struct slice user, struct buffer *out)
{
	const struct resp_spec *spec;
	size_t spec_count;
	bool is_decided =
	    answer->status == 0 || (request->kind == REQUEST_ADHOC && adhoc_is_decided(answer));

	if (request->reply_code < 0) {
		if (request->reply_code == RESP_REPLY_ERROR)
			resp_write_error(out, "ERR", request->local_text);
		else
			buffer_add_slice(out, request->local_text);
		return;
	}
	spec = &resp_specs(&spec_count)[request->reply_code];
	if (!is_decided && request->kind != REQUEST_LOCAL)
		write_status(request, answer, out);
	else if (spec->answer)
		spec->answer(&(struct resp_call){state, request->words, request->word_count, user, out});
	else if (spec->write_reply)
		spec->write_reply(answer, out);
	else if (spec->has_many_keys)
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
	    (struct resp_session){.bounds = *bounds, .connection_id = id, .protocol_version = 2};
}

static void close_session(void *state)
{
	resp_multi_end(state);
}

static size_t next_request_count(const void *state)
{
	return resp_multi_requests(state);
}

const struct codec resp_codec = {
    .name = "resp",
    .session_size = sizeof(struct resp_session),
    .open = open_resp_session,
    .close = close_session,
    .parse = parse,
    .next_request_count = next_request_count,
    .reply = reply,
};
