/* call.c: calls a server over HTTP, with the login of a command, and reads the error it answers. */
#include "cli/remote/call.h"

#include <string.h>

#include "base/error.h"
#include "base/number.h"
#include "cli/command.h"
#include "cli/remote/json_members.h"
#include "client/http_client.h"

#define MESSAGE_MAX 4096 /* bytes of a server's message that are shown */

int call_misunderstood(const struct server_flags *flags, struct weir_error *error)
{
	return error_set(error, WEIR_ESYNTAX,
	                 "--server: expected Weir's HTTP address, found another server at %.80s",
	                 flags->text);
}

/*
 * Reads {"error":{"code":…,"message":…}} and appends the message, without its escapes and with a
 * NUL at its end. False if the body has another form, or memory is short.
 */
static bool read_message(struct slice body, struct buffer *out)
{
	struct json_member outer[] = {{"error", {0}}}, inner[] = {{"message", {0}}};
	struct slice message;

	if (!json_members_read(body, outer, 1) || !json_members_read(outer[0].value, inner, 1))
		return false;
	message = inner[0].value;
	if (message.len <= 2 || *message.data != '"')
		return false;
	buffer_add(out, message.data + 1, message.len - 2);
	if (!out->failed) {
		out->len = json_unescape((struct slice){out->data, out->len}, out->data);
		out->len = u64_min(out->len, MESSAGE_MAX);
	}
	buffer_add(out, "", 1);
	return !out->failed;
}

int call_fail(const char *command, const struct http_reply *reply, const struct weir_error *error)
{
	struct buffer message = {0};
	bool has_message = reply->status >= 300 && read_message(call_body(reply), &message);

	if (has_message)
		command_fail(command, "%s%s", message.data,
		             credentials_remedy(message.data, reply->status));
	else
		command_fail(command, "%s", error->message);
	buffer_free(&message);
	return EXIT_USAGE;
}

static enum call_result result_of(const struct server_flags *flags, const struct http_reply *reply,
                                  struct weir_error *error)
{
	bool is_refused = reply->status == 401 || reply->status == 403;
	struct buffer message = {0};

	if (reply->status >= 200 && reply->status < 300)
		return CALL_DONE;
	if (read_message(call_body(reply), &message))
		error_set(error, WEIR_EIO, "%s%s", message.data,
		          credentials_remedy(message.data, reply->status));
	else
		error_set(error, WEIR_EIO, "%.80s answered with the status %d%s", flags->text,
		          reply->status, credentials_remedy("", reply->status));
	buffer_free(&message);
	return is_refused ? CALL_REFUSED : CALL_FAILED;
}

enum call_result call_server(const struct server_flags *flags, const struct call *call,
                             struct http_reply *reply, struct weir_error *error)
{
	struct buffer fields = {0};
	struct weir_error inner = {0};
	struct http_call http = {.method = call->method,
	                         .path = call->path,
	                         .body = call->body,
	                         .connect_s = CALL_CONNECT_S,
	                         .timeout_s = call->is_patient ? 0 : CALL_ANSWER_S,
	                         .body_max = CALL_ANSWER_MAX};
	int status;

	credentials_add_field(&flags->login, call->path, &fields);
	http.fields = (struct slice){fields.data, fields.len};
	status = http_client_call(&flags->address, &flags->trust.dial, &http, reply, &inner);
	buffer_wipe(&fields);
	if (status == WEIR_ESYNTAX) {
		call_misunderstood(flags, error);
		return CALL_BROKEN;
	}
	if (status != WEIR_OK) {
		error_set(error, status, "no answer from %.80s: %s", flags->text, inner.message);
		return CALL_BROKEN;
	}
	return result_of(flags, reply, error);
}

bool call_add_text(struct buffer *body, const char *name, const char *text,
                   struct weir_error *error)
{
	const unsigned char *p = (const unsigned char *)text;
	size_t left = strlen(text), n = 1;

	for (; left > 0 && n > 0; p += n, left -= n)
		n = utf8_sequence(p, left);
	if (n == 0) {
		error_set(error, WEIR_EINVAL, "expected UTF-8 in the %s over HTTP, found other bytes",
		          name);
		return false;
	}
	buffer_printf(body, "%s\"%s\":\"", body->len > 0 ? "," : "{", name);
	buffer_add_json(body, slice_of(text));
	buffer_add(body, "\"", 1);
	return true;
}
