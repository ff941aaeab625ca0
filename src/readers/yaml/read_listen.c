/*
 * read_listen.c: parses and prints an address of `listen:`, as text or as a mapping of a Unix
 * socket's `path`, `mode`, `owner` and `group`.
 */
#include "base/error.h"
#include "base/network/endpoint.h"
#include "readers/yaml/read.h"
#include "rules/scalar.h"

#define TEXT_MAX 4096
#define MODE_MAX 0777

#define FIELD(name) offsetof(struct rules_listen, name)

/* Reads permissions as chmod takes them: octal digits, of which there are at least three. */
static int read_mode(struct reader *reader, const struct node_key *key, const yaml_node_t *value,
                     void *field)
{
	struct slice text = value->type == YAML_SCALAR_NODE ? node_slice(value) : (struct slice){0};
	unsigned mode = 0;

	(void)key;
	for (size_t i = 0; i < text.len; i++) {
		if (text.data[i] < '0' || text.data[i] > '7' || mode > MODE_MAX)
			return node_expected(reader, value, "a mode in octal digits such as 0660");
		mode = mode * 8 + (unsigned)(text.data[i] - '0');
	}
	if (text.len < 3 || mode == 0 || mode > MODE_MAX)
		return node_expected(reader, value, "a mode in octal digits such as 0660");
	*(unsigned *)field = mode;
	return WEIR_OK;
}

static bool print_mode(const struct printer *printer, const struct node_key *key, const void *field,
                       const void *default_value)
{
	unsigned mode = *(const unsigned *)field;

	(void)key;
	(void)default_value;
	buffer_printf(printer->out, "\"%04o\"", mode);
	return mode != 0;
}

/* Prints the path without the `unix:` that the address has before it. */
static bool print_path(const struct printer *printer, const struct node_key *key, const void *field,
                       const void *default_value)
{
	struct slice path = slice_of(*(const char *const *)field);

	(void)key;
	(void)default_value;
	slice_skip(&path, SLICE(ENDPOINT_UNIX));
	scalar_add(printer->out, path);
	return true;
}

static const struct node_kind path_kind = {node_read_text, print_path};
static const struct node_kind mode_kind = {read_mode, print_mode};

static const struct node_key keys[] = {
    {"path", &path_kind, FIELD(address.text), .required = true, .min = 1, .max = TEXT_MAX},
    {"mode", &mode_kind, FIELD(mode)},
    {"owner", &node_text, FIELD(owner), .min = 1, .max = RULES_NAME_MAX},
    {"group", &node_text, FIELD(group), .min = 1, .max = RULES_NAME_MAX},
};

static const struct node_table table = {"a Unix socket", keys, sizeof keys / sizeof *keys};

/*
 * Reads a mapping for a Unix socket. Stores `unix:PATH` as its address, as if the file had it as
 * text, and sets *position to the node of the path, for error messages.
 */
static int read_unix(struct reader *reader, const yaml_node_t *node, struct rules_listen *out,
                     const yaml_node_t **position)
{
	const yaml_node_t *values[NODE_KEYS_MAX] = {0};
	int status = node_mapping(reader, node, &table, 0, out, values);
	size_t len;
	char *text;

	if (status != WEIR_OK)
		return status;
	*position = values[0];
	len = strlen(out->address.text);
	text = arena_alloc(&reader->config->arena, sizeof ENDPOINT_UNIX + len);
	if (!text)
		return node_no_memory(reader);
	memcpy(text, ENDPOINT_UNIX, sizeof ENDPOINT_UNIX);
	memcpy(text + sizeof ENDPOINT_UNIX - 1, out->address.text, len + 1);
	out->address.text = text;
	return WEIR_OK;
}

static int read_listen(struct reader *reader, const struct node_key *key, const yaml_node_t *value,
                       void *field)
{
	struct node_key text = {.name = key->name, .min = 1, .max = TEXT_MAX};
	struct rules_listen *out = field;
	const yaml_node_t *position = value;
	struct endpoint endpoint;
	struct weir_error inner;
	int status = value->type == YAML_MAPPING_NODE
	                 ? read_unix(reader, value, out, &position)
	                 : node_read_text(reader, &text, value, &out->address.text);

	if (status != WEIR_OK)
		return status;
	if (endpoint_parse(slice_of(out->address.text), &endpoint, &inner) != WEIR_OK)
		return node_error(reader, position, "%s", inner.message);
	out->address.file = reader->file;
	out->address.line = (unsigned)position->start_mark.line + 1;
	out->address.column = (unsigned)position->start_mark.column + 1;
	return WEIR_OK;
}

/* Whether it has a mode, owner or group, for which the text of an address has no form. */
static bool needs_mapping(const struct printer *printer, const struct rules_listen *listen)
{
	static const struct node_table keys_besides_path = {"a Unix socket", keys + 1,
	                                                    sizeof keys / sizeof *keys - 1};
	size_t len = printer->out->len;
	bool has_any = node_print(
	    printer, &(struct node_object){.table = &keys_besides_path, .fields = listen}, ", ");

	printer->out->len = len;
	return has_any;
}

static bool print_listen(const struct printer *printer, const struct node_key *key,
                         const void *field, const void *default_value)
{
	const struct rules_listen *listen = field;

	if (!listen->address.text)
		return false;
	if (!needs_mapping(printer, listen))
		return node_print_text(printer, key, &listen->address.text, default_value);
	return node_print_flow(printer, &(struct node_object){.table = &table, .fields = listen});
}

const struct node_kind read_listen_kind = {read_listen, print_listen};
