/*
 * yaml.c: from the bytes of a file to one clean tree, and its topmost keys.
 *
 * libyaml parses; what the tables of keys should never meet is refused before
 * they run: aliases (a few bytes could stand for billions of nodes), tags
 * (`!x` unquoted is one, and would silently vanish), keys that are not text,
 * endless nesting, a second document.
 */
#include <errno.h>
#include <stdio.h>

#include "base/buffer.h"
#include "rules/read.h"

#define FILE_MAX ((size_t)16 << 20)
#define CAPACITY_MAX (UINT64_C(1) << 40)
#define NODES_MAX 65536
#define TEXT_MAX 4096

#define FIELD(name) offsetof(struct weir_config, name)

static const struct node_key listen_keys[] = {
    {"http", node_text, FIELD(listen_http), .min = 1, .max = TEXT_MAX},
    {"resp", node_text, FIELD(listen_resp), .min = 1, .max = TEXT_MAX},
    {"grpc", node_text, FIELD(listen_grpc), .min = 1, .max = TEXT_MAX},
};

static int read_listen(struct reader *reader, const struct node_key *key, const yaml_node_t *value,
                       void *field)
{
	static const struct node_table table = {"listen", listen_keys,
	                                        sizeof listen_keys / sizeof *listen_keys};

	(void)key;
	(void)field;
	return node_mapping(reader, value, &table, 0, reader->config, NULL);
}

static int read_proxies(struct reader *reader, const struct node_key *key, const yaml_node_t *value,
                        void *field)
{
	static const char expected[] = "an address, 10.0.0.0/8, 10.0.0.* or 10.0.0.1-10.0.0.9";
	struct ip_range *ranges;
	int status = node_expect(reader, value, YAML_SEQUENCE_NODE, "a list of addresses");

	(void)key;
	(void)field;
	if (status != WEIR_OK)
		return status;
	ranges = arena_array(&reader->config->arena, node_item_count(value), sizeof *ranges);
	if (!ranges)
		return node_no_memory(reader);
	for (size_t i = 0; i < node_item_count(value); i++) {
		const yaml_node_t *item = node_at(reader, value->data.sequence.items.start[i]);

		if (item->type != YAML_SCALAR_NODE || !ip_range_parse(node_slice(item), &ranges[i]))
			return node_expected(reader, item, expected);
	}
	reader->config->trusted_proxies = ranges;
	reader->config->trusted_proxy_count = node_item_count(value);
	return WEIR_OK;
}

/* Limits before rules, whatever their order in the file: rules name them. */
static const struct node_key file_keys[] = {
    {"listen", read_listen},
    {"store", node_text, FIELD(store), .min = 1, .max = TEXT_MAX},
    {"capacity", node_number, FIELD(capacity), .min = 1, .max = CAPACITY_MAX},
    {"limits", read_limits},
    {"rules", read_rules},
    {"nodes", node_number, FIELD(nodes), .min = 1, .max = NODES_MAX},
    {"prefix", node_text, FIELD(prefix), .max = TEXT_MAX},
    {"trusted_proxies", read_proxies},
};

/*
 * libyaml numbers nodes in the order in which they stand, and an alias repeats
 * the number of its anchor: in a tree without aliases this walk meets the
 * numbers 1, 2, 3, … . `at` is where an alias would be reported: it has no
 * place of its own.
 */
static int check_tree(struct reader *reader, const yaml_node_t *at, int id, int depth, int *last)
{
	static const char *const default_tags[] = {
	    [YAML_SCALAR_NODE] = YAML_DEFAULT_SCALAR_TAG,
	    [YAML_SEQUENCE_NODE] = YAML_DEFAULT_SEQUENCE_TAG,
	    [YAML_MAPPING_NODE] = YAML_DEFAULT_MAPPING_TAG,
	};
	const yaml_node_t *node = node_at(reader, id);
	int status = WEIR_OK;

	if (id != ++*last)
		return node_error(reader, at, "expected values written out, found an alias (*name)");
	if (depth > NODE_DEPTH_MAX)
		return node_error(reader, node, "expected at most %d levels, found more", NODE_DEPTH_MAX);
	if (strcmp((const char *)node->tag, default_tags[node->type]) != 0)
		return node_error(reader, node, "expected no tag, found %.40s; quote text that begins with !",
		                  (const char *)node->tag);
	if (node->type == YAML_SEQUENCE_NODE) {
		for (size_t i = 0; i < node_item_count(node) && status == WEIR_OK; i++)
			status = check_tree(reader, node, node->data.sequence.items.start[i], depth + 1, last);
	} else if (node->type == YAML_MAPPING_NODE) {
		for (size_t i = 0; i < node_pair_count(node) && status == WEIR_OK; i++) {
			const yaml_node_pair_t *pair = &node->data.mapping.pairs.start[i];
			const yaml_node_t *key = node_at(reader, pair->key);

			status = check_tree(reader, node, pair->key, depth + 1, last);
			if (status == WEIR_OK)
				status = node_expect(reader, key, YAML_SCALAR_NODE, "a name");
			if (status == WEIR_OK)
				status = check_tree(reader, key, pair->value, depth + 1, last);
		}
	}
	return status;
}

static int read_document(struct reader *reader)
{
	static const struct node_table table = {"the file", file_keys,
	                                        sizeof file_keys / sizeof *file_keys};
	const yaml_node_t *root = yaml_document_get_root_node(reader->document);
	int last = 0, status;

	if (!root || node_is_nothing(root))
		return WEIR_OK;
	status = check_tree(reader, root, 1, 1, &last);
	return status == WEIR_OK ? node_mapping(reader, root, &table, 0, reader->config, NULL) : status;
}

/* Errors of the encoding come with an offset in bytes only. */
static int encoding_error(const yaml_parser_t *parser, const char *text, struct weir_error *error)
{
	unsigned line = 1, column = 1;

	for (size_t i = 0; i < parser->problem_offset; i++) {
		column += (text[i] & 0xc0) != 0x80;
		if (text[i] == '\n') {
			line++;
			column = 1;
		}
	}
	return error_set_at(error, WEIR_ESYNTAX, line, column, "expected text in UTF-8, found: %s",
	                    parser->problem);
}

static int yaml_error(const yaml_parser_t *parser, const char *text, struct weir_error *error)
{
	const char *context = parser->context;

	if (parser->error == YAML_MEMORY_ERROR)
		return error_set(error, WEIR_ENOMEM, "%s", weir_strerror(WEIR_ENOMEM));
	if (parser->error == YAML_READER_ERROR)
		return encoding_error(parser, text, error);
	return error_set_at(error, WEIR_ESYNTAX, (unsigned)parser->problem_mark.line + 1,
	                    (unsigned)parser->problem_mark.column + 1, "expected YAML, found: %s%s%s",
	                    parser->problem, context ? " " : "", context ? context : "");
}

static int check_end(struct reader *reader, yaml_parser_t *parser, const char *text)
{
	yaml_document_t second;
	int status = WEIR_OK;

	if (!yaml_parser_load(parser, &second))
		return yaml_error(parser, text, reader->error);
	if (yaml_document_get_root_node(&second))
		status = error_set_at(reader->error, WEIR_EINVAL, (unsigned)second.start_mark.line + 1,
		                      (unsigned)second.start_mark.column + 1,
		                      "expected one document, found a second one");
	yaml_document_delete(&second);
	return status;
}

static int parse(yaml_parser_t *parser, const char *text, struct reader *reader)
{
	yaml_document_t document;
	int status = WEIR_OK;

	if (!yaml_parser_load(parser, &document))
		return yaml_error(parser, text, reader->error);
	reader->document = &document;
	/* Without a root the stream has ended, and libyaml must not be asked again. */
	if (yaml_document_get_root_node(&document))
		status = check_end(reader, parser, text);
	if (status == WEIR_OK)
		status = read_document(reader);
	yaml_document_delete(&document);
	return status;
}

int weir_config_read_yaml(const char *text, size_t len, const char *directory, weir_config **out,
                          struct weir_error *error)
{
	static const char bom[] = "\xef\xbb\xbf";
	struct reader reader = {.config = rules_config_new(), .error = error};
	yaml_parser_t parser;
	int status;

	(void)directory; /* for dictionaries, once there are any */
	*out = NULL;
	if (len >= sizeof bom - 1 && memcmp(text, bom, sizeof bom - 1) == 0) {
		/* libyaml would count it as a column, and so as indentation. */
		text += sizeof bom - 1;
		len -= sizeof bom - 1;
	}
	if (len > FILE_MAX)
		status = error_set(error, WEIR_ELONG, "expected at most 16 MiB, found more");
	else if (!reader.config || !yaml_parser_initialize(&parser))
		status = node_no_memory(&reader);
	else {
		yaml_parser_set_encoding(&parser, YAML_UTF8_ENCODING);
		yaml_parser_set_input_string(&parser, (const unsigned char *)(text ? text : ""), len);
		status = parse(&parser, text, &reader);
		yaml_parser_delete(&parser);
	}
	if (status == WEIR_OK)
		*out = reader.config;
	else
		weir_config_close(reader.config);
	return status;
}

/* One byte more than is accepted, so that too much is noticed. */
static int read_all(const char *path, struct buffer *text, struct weir_error *error)
{
	FILE *file = fopen(path, "rbe");
	size_t got = 1;
	int status = WEIR_OK;

	if (!file)
		return error_set(error, WEIR_EIO, "expected a readable file, found: %m");
	while (got > 0 && text->len <= FILE_MAX) {
		size_t room = (size_t)64 << 10;
		char *to = buffer_reserve(text, room);

		if (!to) {
			status = error_set(error, WEIR_ENOMEM, "%s", weir_strerror(WEIR_ENOMEM));
			break;
		}
		got = fread(to, 1, room, file);
		text->len += got;
	}
	if (status == WEIR_OK && ferror(file))
		status = error_set(error, WEIR_EIO, "expected a readable file, found: %m");
	fclose(file);
	return status;
}

int weir_config_read_file(const char *path, weir_config **out, struct weir_error *error)
{
	struct buffer text = {0};
	int status = read_all(path, &text, error);

	*out = NULL;
	if (status == WEIR_OK)
		status = weir_config_read_yaml(text.data, text.len, NULL, out, error);
	buffer_free(&text);
	return status;
}
