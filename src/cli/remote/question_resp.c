/* question_resp.c: asks a server for a decision over RESP, the protocol of Redis. */
#include <string.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/number.h"
#include "base/os/os.h"
#include "cli/remote/call.h"
#include "cli/remote/question.h"
#include "client/resp_exchange.h"

/*
 * Elements of the reply, in their order. Commands with a limit reply with those before LIMIT,
 * WEIR.CHECK and WEIR.CHECKPEEK with all.
 */
enum field {
	ALLOWED,
	QUOTA,
	REMAINING,
	RETRY_MS,
	RESET_MS,
	REASON,
	PERMIT,
	LIMIT,
	RULE,
	FIELD_COUNT
};

static const struct {
	const char *of_limit, *of_rules;
} commands[] = {
    [QUESTION_ACQUIRE] = {"WEIR.ACQUIRE", "WEIR.CHECK"},
    [QUESTION_PEEK] = {"WEIR.PEEK", "WEIR.CHECKPEEK"},
    [QUESTION_RESET] = {"WEIR.RESET", NULL},
};

/* Whether the reply has the number and types of elements of a decision. */
static bool is_answer(const redisReply *reply)
{
	if (reply->type != REDIS_REPLY_ARRAY ||
	    (reply->elements != LIMIT && reply->elements != FIELD_COUNT))
		return false;
	for (size_t i = 0; i < reply->elements; i++) {
		const redisReply *field = reply->element[i];
		bool is_count = field->type == REDIS_REPLY_INTEGER && field->integer >= 0;
		bool is_text = field->type == REDIS_REPLY_STRING || field->type == REDIS_REPLY_NIL;

		if (i < REASON ? !is_count : !is_text)
			return false;
	}
	return true;
}

/* Appends the login, if there is one, and the command. */
static void write_commands(struct buffer *out, const struct server_flags *flags,
                           const struct question *question)
{
	size_t n = question->attribute_count;

	credentials_add_auth(&flags->login, out);
	buffer_printf(out, "*%zu\r\n", n > 0 ? 1 + 2 * n : question->cost ? (size_t)5 : (size_t)3);
	dial_add_argument(out,
	                  n > 0 ? commands[question->op].of_rules : commands[question->op].of_limit);
	for (size_t i = 0; i < n; i++) {
		dial_add_argument(out, question->attributes[i].name);
		dial_add_argument(out, question->attributes[i].value);
	}
	if (n > 0)
		return;
	dial_add_argument(out, question->limit);
	dial_add_argument(out, question->key);
	if (question->cost) {
		dial_add_argument(out, "COST");
		dial_add_argument(out, question->cost);
	}
}

static uint64_t number_of_field(const redisReply *reply, enum field field)
{
	return (uint64_t)reply->element[field]->integer;
}

/* The text of a field; empty if it is null, as the rule if none applied, or absent. */
static struct slice text_of_field(struct arena *memory, const redisReply *reply, enum field field)
{
	const redisReply *found = field < reply->elements ? reply->element[field] : NULL;
	struct slice text = {found ? found->str : NULL, found && found->str ? found->len : 0};
	const char *copy = text.data ? arena_copy(memory, text) : NULL;

	return copy ? (struct slice){copy, text.len} : SLICE("");
}

static void read_answer(struct question_answer *answer, const redisReply *reply)
{
	answer->is_allowed = number_of_field(reply, ALLOWED) != 0;
	answer->quota = number_of_field(reply, QUOTA);
	answer->remaining = number_of_field(reply, REMAINING);
	answer->retry_after_ms = number_of_field(reply, RETRY_MS);
	answer->reset_after_ms = number_of_field(reply, RESET_MS);
	answer->reason = text_of_field(&answer->memory, reply, REASON);
	answer->limit = text_of_field(&answer->memory, reply, LIMIT);
	answer->rule = text_of_field(&answer->memory, reply, RULE);
}

/* Whether an error of the server is about the login or the rights of the user. */
static bool is_refusal(const char *message)
{
	static const char *const codes[] = {"NOAUTH ", "NOPERM ", "WRONGPASS "};

	for (size_t i = 0; i < sizeof codes / sizeof *codes; i++)
		if (strncmp(message, codes[i], strlen(codes[i])) == 0)
			return true;
	return false;
}

/* Reads the reply, or says why there is none. */
static enum question_result finish(const struct server_flags *flags,
                                   const struct client_connection *conn, enum resp_reading reading,
                                   const redisReply *reply, struct question_answer *answer,
                                   struct weir_error *error)
{
	if (reading == RESP_DONE && is_answer(reply)) {
		read_answer(answer, reply);
		return QUESTION_ANSWERED;
	}
	if (reading == RESP_ERROR) {
		bool has_code_for_any = strncmp(reply->str, "ERR ", strlen("ERR ")) == 0;

		error_set(error, WEIR_EIO, "%s%s", reply->str + (has_code_for_any ? strlen("ERR ") : 0),
		          credentials_remedy(reply->str, 0));
		return is_refusal(reply->str) ? QUESTION_REFUSED : QUESTION_FAILED;
	}
	if (reading == RESP_NOTHING)
		error_set(error, WEIR_EIO, "no answer from %.80s: %s", flags->text,
		          client_error_text(conn));
	else
		error_set(error, WEIR_ESYNTAX,
		          "--server: expected Weir's RESP address, not HTTP's; found %.80s", flags->text);
	return QUESTION_FAILED;
}

enum question_result question_ask_resp(const struct server_flags *flags,
                                       const struct question *question,
                                       struct question_answer *answer, struct weir_error *error)
{
	struct client_connection conn = {.fd = -1};
	struct weir_error inner = {0};
	struct buffer request = {0};
	redisReply *reply = NULL;
	enum question_result result = QUESTION_FAILED;

	write_commands(&request, flags, question);
	if (request.failed) {
		error_set(error, WEIR_ENOMEM, "out of memory");
	} else if (client_connect(&conn, &flags->address, &flags->trust.dial, CALL_CONNECT_S, &inner) !=
	           WEIR_OK) {
		error_set(error, WEIR_EIO, "can't reach %.80s: %s", flags->text, inner.message);
	} else {
		enum resp_reading reading;

		if (question->op != QUESTION_ACQUIRE) /* whose answer a limit may hold */
			conn.deadline_ns = os_monotonic_ns() + CALL_ANSWER_S * NS_PER_S;
		reading = resp_exchange(&conn, (struct slice){request.data, request.len},
		                        flags->login.secret != NULL, &reply);

		result = finish(flags, &conn, reading, reply, answer, error);
	}
	freeReplyObject(reply);
	client_disconnect(&conn);
	buffer_wipe(&request);
	return result;
}
