/* digest.c: asks a server for the digest by which it shows a key. */
#include "cli/remote/digest.h"

#include "base/error.h"
#include "cli/command.h"
#include "cli/remote/call.h"
#include "cli/remote/json_members.h"

/* Appends the digest of {"digest":…}. Returns the exit status. */
static int read_digest(const char *command, const struct server_flags *server, struct slice body,
                       struct buffer *digest)
{
	struct json_member members[] = {{"digest", {0}}};
	struct weir_error error;

	if (!json_members_read(body, members, 1) || !members[0].value.data) {
		call_misunderstood(server, &error);
		return command_fail(command, "%s", error.message);
	}
	buffer_add_printable(digest, json_value_text(members[0].value));
	return 0;
}

int digest_ask(const char *command, const struct server_flags *server, const char *key,
               struct buffer *digest)
{
	struct buffer body = {0};
	struct call call = {.method = "POST", .path = "/v1/key"};
	struct http_reply reply = {0};
	struct weir_error error;
	int status = EXIT_USAGE;

	if (call_add_text(&body, "key", key, &error)) {
		buffer_add_text(&body, "}");
		call.body = (struct slice){body.data, body.len};
		if (body.failed)
			error_set(&error, WEIR_ENOMEM, "out of memory");
		else if (call_server(server, &call, &reply, &error) == CALL_DONE)
			status = 0;
	}
	status = status == 0 ? read_digest(command, server, call_body(&reply), digest)
	                     : call_fail(command, &reply, &error);
	http_reply_free(&reply);
	buffer_free(&body);
	return status;
}
