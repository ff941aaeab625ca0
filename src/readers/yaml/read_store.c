/*
 * read_store.c: parses and prints settings of stores in a rule file in YAML: `store:`, the memory,
 * file or Redis that has the counts, the prefix of its keys, and percentages such as `chunk: 5%`.
 */
#include "base/number.h"
#include "readers/yaml/read.h"
#include "rules/store_kind.h"

#define STORE_MAX  4096 /* bytes */
#define PREFIX_MAX 64

/*
 * Copies the text of a store and sets *store_kind. Messages of this file don't quote the text,
 * since a URL may contain a password.
 */
static int read_store_text(struct reader *reader, const yaml_node_t *value, struct rules_text *out,
                           enum rules_store_kind *store_kind)
{
	struct weir_error error = {0};
	struct slice text = {0};

	if (value->type == YAML_SCALAR_NODE)
		text = node_slice(value);
	if (text.len == 0)
		return node_expected(reader, value, "memory, file:PATH or the URL of a Redis");
	if (text.len > STORE_MAX || memchr(text.data, '\0', text.len))
		return node_error(reader, value, "expected at most %d bytes without a NUL, found others",
		                  STORE_MAX);
	*out = (struct rules_text){arena_copy(&reader->config->arena, text), reader->file,
	                           (unsigned)value->start_mark.line + 1,
	                           (unsigned)value->start_mark.column + 1};
	if (!out->text)
		return node_no_memory(reader);
	if (rules_store_kind_read(out->text, store_kind, &error) != WEIR_OK)
		return node_error(reader, value, "%s", error.message);
	return WEIR_OK;
}

static int read_store(struct reader *reader, const struct node_key *key, const yaml_node_t *value,
                      void *field)
{
	enum rules_store_kind store_kind;

	(void)key;
	return read_store_text(reader, value, field, &store_kind);
}

static int read_limit_store(struct reader *reader, const struct node_key *key,
                            const yaml_node_t *value, void *field)
{
	enum rules_store_kind store_kind;
	int status = read_store_text(reader, value, field, &store_kind);

	(void)key;
	if (status == WEIR_OK && store_kind == RULES_FILE)
		return node_error(
		    reader, value,
		    "expected memory or a URL such as redis://127.0.0.1:6379/0, found a file, "
		    "which only `store` of the whole configuration can name");
	return status;
}

int read_percent(struct reader *reader, const struct node_key *key, const yaml_node_t *value,
                 void *field)
{
	struct slice text = value->type == YAML_SCALAR_NODE ? node_slice(value) : (struct slice){0};
	unsigned *percent = field;
	uint64_t number;

	if (text.len == 0 || text.data[text.len - 1] != '%' ||
	    !parse_u64((struct slice){text.data, text.len - 1}, &number) || number < 1 || number > 100)
		return node_expected(reader, value, key->expected);
	*percent = (unsigned)number;
	return WEIR_OK;
}

static int read_prefix(struct reader *reader, const struct node_key *key, const yaml_node_t *value,
                       void *field)
{
	static const struct node_key text = {.name = "prefix", .max = PREFIX_MAX};
	const char **out = field;
	int status = node_read_text(reader, &text, value, out);

	(void)key;
	if (status == WEIR_OK && strpbrk(*out, "{}"))
		return node_expected(reader, value,
		                     "a prefix without { and }, which say where in a cluster a key lies");
	return status;
}

static bool print_percent(const struct printer *printer, const struct node_key *key,
                          const void *field, const void *default_value)
{
	unsigned percent = *(const unsigned *)field;

	(void)key;
	(void)default_value;
	buffer_printf(printer->out, "%u%%", percent);
	return percent != 0;
}

/* A struct rules_text begins with the text. */
const struct node_kind read_store_kind = {read_store, node_print_text};
const struct node_kind read_limit_store_kind = {read_limit_store, node_print_text};
const struct node_kind read_percent_kind = {read_percent, print_percent};
const struct node_kind read_prefix_kind = {read_prefix, node_print_text};
