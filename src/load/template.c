#include "load/template.h"

#include <string.h>

#include "base/error.h"

#define MARK "{key}"

static size_t count_marks(struct slice text)
{
	size_t n = 0;
	const char *at = text.data, *end = text.data + text.len;

	while ((at = memmem(at, (size_t)(end - at), MARK, strlen(MARK))) != NULL) {
		at += strlen(MARK);
		n++;
	}
	return n;
}

static size_t expanded_len(const struct template *template, struct slice text)
{
	return text.len + count_marks(text) * template->key_len - count_marks(text) * strlen(MARK);
}

/* Appends a key of zeros. Counts keys beyond TEMPLATE_KEYS_MAX, too, for the error message. */
static void add_key(struct template *out)
{
	size_t end = out->bytes.len + out->key_len;

	while (out->bytes.len < end && !out->bytes.failed)
		buffer_add(&out->bytes, "0", 1);
	if (out->key_count < TEMPLATE_KEYS_MAX)
		out->key_at[out->key_count] = end - out->digits;
	out->key_count++;
}

static void add_expanded(struct template *out, struct slice text)
{
	const char *end = text.data + text.len, *mark;

	while ((mark = memmem(text.data, (size_t)(end - text.data), MARK, strlen(MARK))) != NULL) {
		buffer_add(&out->bytes, text.data, (size_t)(mark - text.data));
		add_key(out);
		text.data = mark + strlen(MARK);
	}
	buffer_add(&out->bytes, text.data, (size_t)(end - text.data));
}

static void begin_template(struct template *out, size_t key_len, size_t digits)
{
	*out = (struct template){.key_len = key_len, .digits = digits};
	out->bytes.max = TEMPLATE_SIZE_MAX;
}

static int check_template(struct template *out, struct weir_error *error)
{
	int status = WEIR_OK;

	if (out->key_count > TEMPLATE_KEYS_MAX)
		status = error_set(error, WEIR_EINVAL, "expected " MARK " at most %d times, found %zu",
		                   TEMPLATE_KEYS_MAX, out->key_count);
	else if (out->bytes.failed)
		status = error_set(error, WEIR_EINVAL, "expected a request of at most %d bytes",
		                   TEMPLATE_SIZE_MAX);
	if (status != WEIR_OK)
		template_free(out);
	return status;
}

/* Reads the next word of *text; false at the end. */
static bool next_word(const char **text, struct slice *word)
{
	*text += strspn(*text, " \t");
	*word = (struct slice){*text, strcspn(*text, " \t")};
	*text += word->len;
	return word->len > 0;
}

int template_resp(struct template *out, const char *command, size_t key_len, size_t digits,
                  struct weir_error *error)
{
	const char *rest = command;
	struct slice word;
	size_t words = 0;

	while (next_word(&rest, &word))
		words++;
	if (words == 0)
		return error_set(error, WEIR_EINVAL, "expected a command, found '%s'", command);
	begin_template(out, key_len, digits);
	buffer_printf(&out->bytes, "*%zu\r\n", words);
	for (rest = command; next_word(&rest, &word);) {
		buffer_printf(&out->bytes, "$%zu\r\n", expanded_len(out, word));
		add_expanded(out, word);
		buffer_add_text(&out->bytes, "\r\n");
	}
	return check_template(out, error);
}

int template_http(struct template *out, const char *path, const char *fields, size_t key_len,
                  size_t digits, struct weir_error *error)
{
	if (path[0] != '/')
		return error_set(error, WEIR_EINVAL, "expected a path that begins with '/', found '%.80s'",
		                 path);
	for (const char *c = path; *c; c++)
		if (*c <= ' ' || *c > '~')
			return error_set(error, WEIR_EINVAL,
			                 "expected a path of visible ASCII, others as %%XX, found byte 0x%02x",
			                 (unsigned char)*c);
	begin_template(out, key_len, digits);
	buffer_add_text(&out->bytes, "GET ");
	add_expanded(out, slice_of(path));
	buffer_printf(&out->bytes, " HTTP/1.1\r\n%s\r\n", fields);
	return check_template(out, error);
}

void template_fill(const struct template *template, char *request, uint64_t key)
{
	for (size_t i = 0; i < template->key_count; i++) {
		char *at = request + template->key_at[i];
		uint64_t rest = key;

		for (size_t j = template->digits; j-- > 0; rest /= 10)
			at[j] = (char)('0' + rest % 10);
	}
}

void template_free(struct template *template)
{
	buffer_wipe(&template->bytes);
}
