/* question_http.c: asks a server for a decision over HTTP. */
#include "base/buffer.h"
#include "base/error.h"
#include "cli/remote/call.h"
#include "cli/remote/json_members.h"
#include "cli/remote/question.h"

static const char *const paths[] = {
    [QUESTION_ACQUIRE] = "/v1/acquire",
    [QUESTION_PEEK] = "/v1/peek",
    [QUESTION_RESET] = "/v1/reset",
};

static bool add_attributes(struct buffer *body, const struct question *question,
                           struct weir_error *error)
{
	struct buffer members = {0};
	bool is_text = true;

	for (size_t i = 0; is_text && i < question->attribute_count; i++) {
		const struct weir_attribute *attribute = &question->attributes[i];
		struct buffer name = {0};

		buffer_add_json(&name, slice_of(attribute->name));
		buffer_add(&name, "", 1);
		is_text = !name.failed && call_add_text(&members, name.data, attribute->value, error);
		buffer_free(&name);
	}
	buffer_add_text(body, "{\"attributes\":");
	buffer_add(body, members.data, members.len);
	buffer_add_text(body, "}}");
	body->failed |= members.failed;
	buffer_free(&members);
	return is_text;
}

/* Writes the body of the request. False, with an error, if JSON can't have one of the texts. */
static bool write_body(struct buffer *body, const struct question *question,
                       struct weir_error *error)
{
	if (question->attribute_count > 0)
		return add_attributes(body, question, error);
	if (!call_add_text(body, "limit", question->limit, error) ||
	    !call_add_text(body, "key", question->key, error))
		return false;
	if (question->cost)
		buffer_printf(body, ",\"cost\":%s", question->cost);
	buffer_add_text(body, "}");
	return true;
}

static struct slice copy_text(struct arena *memory, struct slice value)
{
	struct slice text = json_value_text(value);
	const char *copy = arena_copy(memory, text);

	return copy ? (struct slice){copy, text.len} : SLICE("");
}

/* Whether the body is a decision, which is then in *answer. */
static bool read_decision(struct slice body, struct question_answer *answer)
{
	enum { ALLOWED, QUOTA, REMAINING, RETRY, RESET, REASON, LIMIT, RULE, COUNT };
	struct json_member members[] = {
	    {"allowed", {0}},        {"quota", {0}},  {"remaining", {0}}, {"retry_after_ms", {0}},
	    {"reset_after_ms", {0}}, {"reason", {0}}, {"limit", {0}},     {"rule", {0}}};

	if (!json_members_read(body, members, COUNT) || !members[ALLOWED].value.data ||
	    !members[REASON].value.data)
		return false;
	answer->is_allowed = json_value_is_true(members[ALLOWED].value);
	answer->quota = json_value_u64(members[QUOTA].value);
	answer->remaining = json_value_u64(members[REMAINING].value);
	answer->retry_after_ms = json_value_u64(members[RETRY].value);
	answer->reset_after_ms = json_value_u64(members[RESET].value);
	answer->reason = copy_text(&answer->memory, members[REASON].value);
	answer->limit = copy_text(&answer->memory, members[LIMIT].value);
	answer->rule = copy_text(&answer->memory, members[RULE].value);
	return true;
}

enum question_result question_ask_http(const struct server_flags *flags,
                                       const struct question *question,
                                       struct question_answer *answer, struct weir_error *error)
{
	struct buffer body = {0};
	struct http_reply reply = {0};
	struct call call = {.method = "POST",
	                    .path = paths[question->op],
	                    .is_patient = question->op == QUESTION_ACQUIRE};
	enum question_result result = QUESTION_FAILED;
	enum call_result called = CALL_BROKEN;

	if (write_body(&body, question, error)) {
		call.body = (struct slice){body.data, body.len};
		if (body.failed)
			error_set(error, WEIR_ENOMEM, "out of memory");
		else
			called = call_server(flags, &call, &reply, error);
	}
	/* A denial is a decision with the status 429 or 503. */
	if (called == CALL_REFUSED)
		result = QUESTION_REFUSED;
	else if (called != CALL_BROKEN && read_decision(call_body(&reply), answer))
		result = QUESTION_ANSWERED;
	else if (called == CALL_DONE)
		call_misunderstood(flags, error);
	http_reply_free(&reply);
	buffer_free(&body);
	return result;
}
