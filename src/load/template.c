/*
 * template.c: builds the bytes of a request of `weir bench` once, with space for a key of fixed
 * length, and fills in the key of each request that is sent.
 */
#include "load/template.h"

#include <string.h>

#include "base/error.h"

#define KEY_MARK "{key}"

static size_t count_key_marks(struct slice text)
{
	size_t n = 0;
	const char *at = text.data, *end = text.data + text.len;

	while ((at = memmem(at, (size_t)(end - at), KEY_MARK, strlen(KEY_MARK))) != NULL) {
		at += strlen(KEY_MARK);
		n++;
	}
	return n;
}

/* The length of `text` once each {key} is a key. */
static size_t expanded_len(const struct template *template, struct slice text)
{
	size_t marks = count_key_marks(text);

	return text.len - marks * strlen(KEY_MARK) + marks * template->key_len;
}

/*
 * Appends a key of zeros, whose last `digits` bytes each request overwrites. Counts keys beyond
 * TEMPLATE_KEYS_MAX, too, for the error message.
 */
static void add_zero_key(struct template *out)
{
	size_t end = out->bytes.len + out->key_len;

	while (out->bytes.len < end && !out->bytes.failed)
		buffer_add(&out->bytes, "0", 1);
	if (out->key_count < TEMPLATE_KEYS_MAX)
		out->key_offsets[out->key_count] = end - out->digits;
	out->key_count++;
}

/* Appends `text` with a key of zeros in place of each {key}. */
static void add_expanded(struct template *out, struct slice text)
{
	const char *end = text.data + text.len, *mark;

	while ((mark = memmem(text.data, (size_t)(end - text.data), KEY_MARK, strlen(KEY_MARK))) !=
	       NULL) {
		buffer_add(&out->bytes, text.data, (size_t)(mark - text.data));
		add_zero_key(out);
		text.data = mark + strlen(KEY_MARK);
	}
	buffer_add(&out->bytes, text.data, (size_t)(end - text.data));
}

static void begin_template(struct template *out, size_t key_len, size_t digits)
{
	*out = (struct template){.key_len = key_len, .digits = digits};
	out->bytes.max = TEMPLATE_SIZE_MAX;
}

/* Frees the template and sets the error if the request is too large or has too many keys. */
static int check_template(struct template *out, struct weir_error *error)
{
	int status = WEIR_OK;

	if (out->key_count > TEMPLATE_KEYS_MAX)
		status = error_set(error, WEIR_EINVAL, "expected " KEY_MARK " at most %d times, found %zu",
		                   TEMPLATE_KEYS_MAX, out->key_count);
	else if (out->bytes.failed)
		status = error_set(error, WEIR_EINVAL, "expected a request of at most %d bytes",
		                   TEMPLATE_SIZE_MAX);
	if (status != WEIR_OK)
		template_free(out);
	return status;
}

/* Reads the next word of *text; false at the end. */
static bool read_word(const char **text, struct slice *word)
{
	*text += strspn(*text, " \t");
	*word = (struct slice){*text, strcspn(*text, " \t")};
	*text += word->len;
	return word->len > 0;
}

/* Makes a RESP command, an array of strings, of the words of `command`. */
int template_resp(struct template *out, const char *command, size_t key_len, size_t digits,
                  struct weir_error *error)
{
	const char *rest = command;
	struct slice word;
	size_t words = 0;

	while (read_word(&rest, &word))
		words++;
	if (words == 0)
		return error_set(error, WEIR_EINVAL, "expected a command, found '%s'", command);
	begin_template(out, key_len, digits);
	buffer_printf(&out->bytes, "*%zu\r\n", words);
	for (rest = command; read_word(&rest, &word);) {
		buffer_printf(&out->bytes, "$%zu\r\n", expanded_len(out, word));
		add_expanded(out, word);
		buffer_add_text(&out->bytes, "\r\n");
	}
	return check_template(out, error);
}

/* Makes a GET request; `fields` has complete header lines. */
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

/* Writes the decimal digits of `key` at each of its positions in a copy of the template's bytes. */
void template_fill(const struct template *template, char *request, uint64_t key)
{
	for (size_t i = 0; i < template->key_count; i++) {
		char *digits = request + template->key_offsets[i];
		uint64_t rest = key;

		for (size_t j = template->digits; j-- > 0; rest /= 10)
			digits[j] = (char)('0' + rest % 10);
	}
}

void template_free(struct template *template)
{
	buffer_wipe(&template->bytes);
}
