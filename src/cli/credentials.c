#include "cli/credentials.h"

#include "base/base64.h"
#include "base/error.h"
#include "base/file.h"

#define FILE_MAX (1 << 20)

int credentials_read(struct credentials *credentials, const char *path, struct weir_error *error)
{
	struct buffer *text = &credentials->text;
	struct weir_error why = {0};
	int status;
	char *colon;

	credentials_free(credentials);
	status = file_read(path, FILE_MAX, text, &why);
	buffer_add(text, "", 1);
	if (status == WEIR_OK && text->failed)
		status = error_set(&why, WEIR_ENOMEM, "out of memory");
	if (status != WEIR_OK)
		return error_set(error, status, "--login: %s: %s", path, why.message);
	text->data[strcspn(text->data, "\r\n")] = '\0';
	colon = strchr(text->data, ':');
	if (colon)
		*colon = '\0';
	credentials->user = colon ? text->data : NULL;
	credentials->secret = colon ? colon + 1 : text->data;
	return WEIR_OK;
}

static void wipe(struct buffer *buffer)
{
	if (buffer->data)
		explicit_bzero(buffer->data, buffer->capacity);
	buffer_free(buffer);
}

void credentials_free(struct credentials *credentials)
{
	wipe(&credentials->text);
	*credentials = (struct credentials){0};
}

static void add_word(struct buffer *out, const char *word)
{
	buffer_printf(out, "$%zu\r\n%s\r\n", strlen(word), word);
}

void credentials_add_auth(const struct credentials *credentials, struct buffer *out)
{
	if (!credentials->secret)
		return;
	buffer_printf(out, "*%d\r\n", credentials->user ? 3 : 2);
	add_word(out, "AUTH");
	if (credentials->user)
		add_word(out, credentials->user);
	add_word(out, credentials->secret);
}

void credentials_add_field(const struct credentials *credentials, struct buffer *out)
{
	struct buffer pair = {0};
	char *to;

	if (credentials->secret && !credentials->user)
		buffer_printf(out, "Authorization: Bearer %s\r\n", credentials->secret);
	if (!credentials->user)
		return;
	buffer_printf(&pair, "%s:%s", credentials->user, credentials->secret);
	buffer_add_text(out, "Authorization: Basic ");
	to = pair.failed ? NULL : buffer_reserve(out, BASE64_LEN(pair.len) + 3);
	if (to)
		out->len += base64_encode((const uint8_t *)pair.data, pair.len, to);
	out->failed |= pair.failed;
	buffer_add_text(out, "\r\n");
	wipe(&pair);
}
