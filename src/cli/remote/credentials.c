/*
 * credentials.c: reads the login of a command from flags, a file or the environment, and writes it
 * as a RESP command or an HTTP header.
 */
#include "cli/remote/credentials.h"

#include <stdlib.h>
#include <string.h>

#include "base/error.h"
#include "base/os/read_file.h"
#include "base/text/base64.h"
#include "client/dial.h"

#define FILE_MAX   (1 << 20)
#define SYNTAX_MAX 80 /* bytes of a command or header around the user and the secret */

#define UNAUTHORIZED 401 /* the status of HTTP without a login, or with a wrong one */

enum { USER, LOGIN }; /* indexes in CREDENTIALS_FLAGS */

void credentials_set(struct credentials *credentials, int flag, const char *value)
{
	if (flag == USER)
		credentials->user = value;
	else
		credentials->path = value;
}

/* Reads the first line of the file of --login: USER:SECRET, or a token alone. */
static int read_login_file(struct credentials *credentials, struct weir_error *error)
{
	struct buffer *text = &credentials->text;
	struct weir_error why = {0};
	int status = file_read_any(credentials->path, FILE_MAX, text, &why);
	char *colon;

	buffer_add(text, "", 1); /* a NUL */
	if (status == WEIR_OK && text->failed)
		status = error_set(&why, WEIR_ENOMEM, "out of memory");
	if (status != WEIR_OK)
		return error_set(error, status, "--login: %s: %s", credentials->path, why.message);
	text->data[strcspn(text->data, "\r\n")] = '\0';
	colon = strchr(text->data, ':');
	if (colon)
		*colon = '\0';
	credentials->user = colon ? text->data : NULL;
	credentials->secret = colon ? colon + 1 : text->data;
	return WEIR_OK;
}

/* Returns the value of an environment variable, or NULL if it is empty. */
static const char *environment_text(const char *name)
{
	const char *value = getenv(name);

	return value && *value ? value : NULL;
}

/* Reads the password or token of --user, or a token alone. Without either there is no login. */
static int read_environment(struct credentials *credentials, struct weir_error *error)
{
	const char *password = environment_text("WEIR_PASSWORD"),
	           *token = environment_text("WEIR_TOKEN");
	bool has_user = credentials->user != NULL;

	if (password && token)
		return error_set(error, WEIR_EINVAL,
		                 "expected WEIR_PASSWORD or WEIR_TOKEN in the environment, found both");
	if (has_user && !password && !token)
		return error_set(error, WEIR_EINVAL,
		                 "expected WEIR_PASSWORD or WEIR_TOKEN in the environment beside --user, "
		                 "found neither");
	if (password && !has_user)
		return error_set(error, WEIR_EINVAL, "expected --user beside WEIR_PASSWORD, found none");
	credentials->secret = password ? password : token;
	return WEIR_OK;
}

int credentials_read(struct credentials *credentials, struct weir_error *error)
{
	if (credentials->user && credentials->path)
		return error_set(error, WEIR_EINVAL, "expected --user or --login, found both");
	/* The value is not shown, because a secret may follow the colon. */
	if (credentials->user && strchr(credentials->user, ':'))
		return error_set(error, WEIR_EINVAL,
		                 "--user: expected a name without a colon; the secret comes from "
		                 "WEIR_PASSWORD or WEIR_TOKEN");
	return credentials->path ? read_login_file(credentials, error)
	                         : read_environment(credentials, error);
}

/* Not every 403 is about the user: the address of the client may be wrong, or the Host. */
const char *credentials_remedy(const char *message, int status)
{
	static const char *const texts[] = {"NOAUTH ", "WRONGPASS ", "expected a user who may ",
	                                    "expected a user of all limits",
	                                    "expected a limit of user "};
	bool is_login_wrong = status == UNAUTHORIZED;

	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
		is_login_wrong |= strstr(message, texts[i]) != NULL;
	return is_login_wrong ? "; log in by --login FILE, by --user NAME and WEIR_PASSWORD, or by "
	                        "WEIR_TOKEN"
	                      : "";
}

void credentials_free(struct credentials *credentials)
{
	buffer_wipe(&credentials->text);
	*credentials = (struct credentials){0};
}

static const char *user_or_empty(const struct credentials *credentials)
{
	return credentials->user ? credentials->user : "";
}

/*
 * Appends the RESP command AUTH. Reserves the memory first, because growing the buffer would leave
 * a copy of the secret behind.
 */
void credentials_add_auth(const struct credentials *credentials, struct buffer *out)
{
	if (!credentials->secret)
		return;
	buffer_reserve(out,
	               strlen(user_or_empty(credentials)) + strlen(credentials->secret) + SYNTAX_MAX);
	buffer_printf(out, "*%d\r\n", credentials->user ? 3 : 2);
	dial_add_argument(out, "AUTH");
	if (credentials->user)
		dial_add_argument(out, credentials->user);
	dial_add_argument(out, credentials->secret);
}

/* Whether the path is /auth, where the Authorization header is a visitor's. */
static bool is_auth_endpoint(const char *path)
{
	static const char auth[] = "/auth";

	return strncmp(path, auth, sizeof auth - 1) == 0 && strchr("/?#", path[sizeof auth - 1]);
}

/*
 * Appends the header line Authorization, or Weir-Authorization for /auth. Sends a token like a
 * password, because Base64 can encode any bytes. Reserves the memory first, as
 * credentials_add_auth.
 */
void credentials_add_field(const struct credentials *credentials, const char *path,
                           struct buffer *out)
{
	struct buffer user_and_secret = {0};
	size_t len;
	char *to;

	if (!credentials->secret)
		return;
	len = strlen(user_or_empty(credentials)) + 1 + strlen(credentials->secret);
	buffer_reserve(&user_and_secret, len + 1);
	buffer_add_text(&user_and_secret, user_or_empty(credentials));
	buffer_add_text(&user_and_secret, ":");
	buffer_add_text(&user_and_secret, credentials->secret);
	buffer_reserve(out, BASE64_LEN(len) + SYNTAX_MAX);
	buffer_add_text(out, is_auth_endpoint(path) ? "Weir-Authorization: Basic "
	                                            : "Authorization: Basic ");
	to = user_and_secret.failed ? NULL : buffer_reserve(out, BASE64_LEN(len) + 3); /* padding */
	if (to)
		out->len += base64_encode((const uint8_t *)user_and_secret.data, len, to);
	out->failed |= user_and_secret.failed;
	buffer_add_text(out, "\r\n");
	buffer_wipe(&user_and_secret);
}
