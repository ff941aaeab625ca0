/*
 * yaml.c: reads a rule file in YAML into a configuration, and prints a configuration as YAML. This
 * file parses the bytes, by libyaml, and has the table of the topmost keys; files named read_*.c
 * have the tables of the keys below them.
 *
 * A file is parsed twice. The first pass goes through the events and refuses:
 *
 * - aliases, as a few bytes could stand for billions of nodes
 * - tags, as an unquoted `!x` is one, and would silently vanish
 * - keys that are not text
 * - a second document
 * - deep nesting, for which libyaml takes time by the square of the depth
 *
 * The second pass makes a tree.
 */
#include "base/error.h"
#include "base/time/zone.h"
#include "readers/yaml/print.h"
#include "readers/yaml/read.h"
#include "rules/rate.h"
#include "rules/scalar.h"

#define NODES_MAX         65536
#define CONNECTIONS_MAX   10000000
#define STORE_TIME_MAX_NS (60 * NS_PER_S)

#define STORE_TIME_EXPECTED "a time from 1ms to a minute such as 20ms"

#define FIELD(name)            offsetof(struct weir_config, name)
#define ARRAY(elements, count) NODE_ARRAY(struct weir_config, elements, count)

static int refuse_grpc(struct reader *reader, const struct node_key *key, const yaml_node_t *value,
                       void *field)
{
	(void)key;
	(void)field;
	return node_error(reader, value,
	                  "expected http, resp or admin, found grpc, which is not supported yet");
}

static const struct node_kind grpc_kind = {refuse_grpc, NULL};

static const struct node_key listen_keys[] = {
    {"http", &read_listen_kind, FIELD(listen_http)},
    {"resp", &read_listen_kind, FIELD(listen_resp)},
    {"admin", &read_listen_kind, FIELD(listen_admin)},
    {"grpc", &grpc_kind, .hidden = true},
};

static const struct node_table listen_table = {"listen", listen_keys,
                                               sizeof listen_keys / sizeof *listen_keys};

static int read_range(struct reader *reader, struct node_name *name, const yaml_node_t *node,
                      void *element)
{
	(void)name;
	if (node->type == YAML_SCALAR_NODE && ip_range_parse(node_slice(node), element))
		return WEIR_OK;
	return node_expected(reader, node, "an address, 10.0.0.0/8, 10.0.0.* or 10.0.0.1-10.0.0.9");
}

static void print_range(const struct printer *printer, const void *element)
{
	const struct ip_range *range = element;
	int bits = ip_range_prefix(range);
	bool v4 = ip_is_v4(&range->first) && ip_is_v4(&range->last);
	char text[2 * IP_TEXT_MAX + 8];
	size_t len = ip_format(&range->first, text);

	if (bits < 0) {
		text[len++] = '-';
		len += ip_format(&range->last, text + len);
	} else if (bits < 128) {
		len += (size_t)sprintf(text + len, "/%d", v4 ? bits - 96 : bits);
	}
	scalar_add(printer->out, (struct slice){text, len});
}

static const struct node_items ranges = {.type = YAML_SEQUENCE_NODE,
                                         .expected = "a list of addresses",
                                         .size = sizeof(struct ip_range),
                                         .read = read_range,
                                         .print = print_range};

static int read_protected(struct reader *reader, const struct node_key *key,
                          const yaml_node_t *value, void *field)
{
	struct weir_config *config = reader->config;
	bool scalar = value->type == YAML_SCALAR_NODE;

	(void)key;
	if (value->type == YAML_SEQUENCE_NODE)
		return node_items(reader, value, &ranges, field, NULL);
	config->unprotected = scalar && slice_equal(node_slice(value), SLICE("no"));
	if (config->unprotected || (scalar && slice_equal(node_slice(value), SLICE("yes"))))
		return WEIR_OK;
	return node_expected(reader, value, "yes, no or a list of addresses");
}

static bool print_protected(const struct printer *printer, const struct node_key *key,
                            const void *field, const void *default_value)
{
	const struct node_array *array = field;

	(void)key;
	(void)default_value;
	if (printer->config->unprotected)
		buffer_add_text(printer->out, "no");
	else if (array->count > 0)
		node_print_items(printer, &ranges, array);
	return printer->config->unprotected || array->count > 0;
}

static const struct node_kind protected_kind = {read_protected, print_protected};

/* Whether it is a name as browsers send it: in ASCII, with xn-- for other characters. */
static bool is_host_name(struct slice name)
{
	static const char characters[] =
	    "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.";

	for (size_t i = 0; i < name.len; i++)
		if (!memchr(characters, name.data[i], sizeof characters - 1))
			return false;
	return name.len > 0 && name.data[name.len - 1] != '.';
}

static int read_host(struct reader *reader, struct node_name *name, const yaml_node_t *node,
                     void *element)
{
	const char **host = element;

	if (node->type != YAML_SCALAR_NODE || !is_host_name(name->text))
		return node_expected(reader, node, "a name such as limits.example.com, without a port");
	*host = arena_copy(&reader->config->arena, name->text);
	return *host ? WEIR_OK : node_no_memory(reader);
}

static const struct node_items hosts = {.type = YAML_SEQUENCE_NODE,
                                        .expected = "a list of names",
                                        .size = sizeof(const char *),
                                        .read = read_host,
                                        .print = read_print_name};

static int read_attribute_name(struct reader *reader, struct node_name *name,
                               const yaml_node_t *node, void *element)
{
	(void)name;
	return node_name(reader, node, element);
}

static const struct node_items attributes = {.type = YAML_SEQUENCE_NODE,
                                             .expected = "a list of attributes such as [tenant]",
                                             .item_name = "attribute",
                                             .size = sizeof(const char *),
                                             .read = read_attribute_name,
                                             .print = read_print_name};

static const struct node_key idle_keys[] = {
    {"http", &node_duration, FIELD(idle_http_ns), .expected = DURATION_EXPECTED, .max = UINT64_MAX},
    {"resp", &node_duration, FIELD(idle_resp_ns), .expected = DURATION_EXPECTED, .max = UINT64_MAX},
};

static const struct node_table idle_table = {"idle", idle_keys,
                                             sizeof idle_keys / sizeof *idle_keys};

static int read_zone(struct reader *reader, const struct node_key *key, const yaml_node_t *value,
                     void *field)
{
	int status = node_read_text(reader, key, value, field);
	struct weir_error error = {0};
	struct zone *zone;

	if (status != WEIR_OK)
		return status;
	status = zone_open(*(const char **)field, &zone, &error);
	if (status == WEIR_ENOMEM)
		return node_no_memory(reader);
	if (status != WEIR_OK)
		return node_error(reader, value, "%s", error.message);
	zone_close(zone);
	return WEIR_OK;
}

static const struct node_kind zone_kind = {read_zone, node_print_text};

static const struct node_key koala_keys[] = {
    {"timezone", &zone_kind, FIELD(koala.timezone), .min = 1, .max = RULES_NAME_MAX},
    {"unmatched", &read_result_kind, FIELD(koala.unmatched)},
    {"unexceeded", &read_result_kind, FIELD(koala.unexceeded)},
};

static const struct node_table koala_table = {"koala", koala_keys,
                                              sizeof koala_keys / sizeof *koala_keys};

static const struct word orders[] = {{"all", RULES_ALL}, {"first", RULES_FIRST}, {0}};

static const struct word auths[] = {
    {"yes", RULES_AUTH_YES}, {"no", RULES_AUTH_NO}, {"reports", RULES_AUTH_REPORTS}, {0}};

/* Rules depend on other keys, so they are read last, wherever they stand in the file. */
static const struct node_key file_keys[] = {
    {"listen", &node_nested, .nested = &listen_table},
    {"store", &read_store_kind, FIELD(store)},
    {"store_owner", &node_text, FIELD(store_owner), .min = 1, .max = RULES_NAME_MAX},
    {"store_group", &node_text, FIELD(store_group), .min = 1, .max = RULES_NAME_MAX},
    {"capacity", &node_number, FIELD(capacity), .min = 1, .max = WEIR_CAPACITY_MAX},
    {"sync", &node_duration, FIELD(sync_ns), .expected = DURATION_EXPECTED, .min = 1,
     .max = UINT64_MAX},
    {"order", &node_word, FIELD(order), .words = orders},
    {"koala", &node_nested, .nested = &koala_table},
    {"attributes", &node_list, ARRAY(attributes, attribute_count), .items = &attributes},
    {"denials", &node_nested, .nested = &read_denials_table},
    {"nodes", &node_number, FIELD(nodes), .presence_flag = FIELD(has_nodes), .min = 1,
     .max = NODES_MAX},
    {"prefix", &read_prefix_kind, FIELD(prefix)},
    {"store_timeout", &node_duration, FIELD(store_timeout_ns), .expected = STORE_TIME_EXPECTED,
     .min = NS_PER_MS, .max = STORE_TIME_MAX_NS},
    {"denied_cache", &node_duration, FIELD(denied_cache_ns),
     .expected = "a time of a minute at most such as 1s, or 0s", .max = STORE_TIME_MAX_NS},
    {"store_poll", &node_duration, FIELD(store_poll_ns), .expected = STORE_TIME_EXPECTED,
     .min = NS_PER_MS, .max = STORE_TIME_MAX_NS},
    {"ipv6_prefix", &node_number, FIELD(ipv6_prefix), .min = 1, .max = 128},
    {"path_variants", &node_word, FIELD(path_variants), .words = read_switches},
    {"retry_jitter", &node_decimal, FIELD(retry_jitter), .max = 1},
    {"trusted_proxies", &node_list, ARRAY(trusted_proxies, trusted_proxy_count), .items = &ranges},
    {"auth", &node_word, FIELD(auth), .words = auths},
    {"connections", &node_number, FIELD(connections), .min = 1, .max = CONNECTIONS_MAX},
    {"idle", &node_nested, .nested = &idle_table},
    {"hosts", &node_list, ARRAY(hosts, host_count), .items = &hosts},
    {"tls", &read_tls_kind, FIELD(tls)},
    {"users", &read_users_kind, ARRAY(users, user_count)},
    {"protected", &protected_kind, ARRAY(protected, protected_count)},
    {"limits", &read_limits_kind, ARRAY(limits, limit_count)},
    {"rules", &read_rules_kind, ARRAY(rules, rule_count)},
};

static const struct node_table file_table = {"the file", file_keys,
                                             sizeof file_keys / sizeof *file_keys};

/* Counts line and column, because libyaml reports errors of the encoding by an offset in bytes. */
static int report_encoding_error(const yaml_parser_t *parser, struct slice text,
                                 struct weir_error *error)
{
	unsigned line = 1, column = 1;

	for (size_t i = 0; i < parser->problem_offset; i++) {
		column += (text.data[i] & 0xc0) != 0x80;
		if (text.data[i] == '\n') {
			line++;
			column = 1;
		}
	}
	return error_set_at(error, WEIR_ESYNTAX, line, column, "expected text in UTF-8, found: %s",
	                    parser->problem);
}

/* Returns the character at a mark of libyaml, whose index counts characters, not bytes. */
static char character_at(struct slice text, const yaml_mark_t *mark)
{
	size_t at = 0;

	for (size_t characters = 0; at < text.len; at++)
		if ((text.data[at] & 0xc0) != 0x80 && characters++ == mark->index)
			return text.data[at];
	return '\0';
}

/* Turns an error of libyaml into one with our words and a position. */
static int report_syntax_error(const yaml_parser_t *parser, struct slice text,
                               struct weir_error *error)
{
	const yaml_mark_t *mark = &parser->problem_mark;
	const char *context = parser->context;

	if (parser->error == YAML_MEMORY_ERROR)
		return error_set(error, WEIR_ENOMEM, "%s", weir_strerror(WEIR_ENOMEM));
	if (parser->error == YAML_READER_ERROR)
		return report_encoding_error(parser, text, error);
	if (character_at(text, mark) == '\t')
		return error_set_at(error, WEIR_ESYNTAX, (unsigned)mark->line + 1,
		                    (unsigned)mark->column + 1,
		                    "expected blanks to indent by, found a tab");
	return error_set_at(error, WEIR_ESYNTAX, (unsigned)mark->line + 1, (unsigned)mark->column + 1,
	                    "expected YAML, found: %s%s%s", parser->problem, context ? " " : "",
	                    context ? context : "");
}

static bool open_parser(yaml_parser_t *parser, struct slice text)
{
	if (!yaml_parser_initialize(parser))
		return false;
	yaml_parser_set_encoding(parser, YAML_UTF8_ENCODING);
	yaml_parser_set_input_string(parser, (const unsigned char *)text.data, text.len);
	return true;
}

/* In which mappings and lists the first pass is, from the outermost to the innermost. */
struct nesting {
	int depth;
	struct {
		bool is_mapping;
		bool expects_value; /* the next node of a mapping is a value, not a key */
	} levels[NODE_DEPTH_MAX + 1];
	bool has_document;
};

/*
 * Checks the beginning of a text, list or mapping. Messages never show a tag or an alias, since the
 * text may be a password that begins with ! or *.
 */
static int check_node(struct reader *reader, const yaml_event_t *event, const yaml_char_t *tag,
                      struct nesting *nesting)
{
	bool is_mapping = nesting->levels[nesting->depth].is_mapping;
	bool is_key = is_mapping && !nesting->levels[nesting->depth].expects_value;

	if (tag)
		return node_error(reader, event,
		                  "expected no tag, found one; quote text that begins with !");
	if (is_key && event->type != YAML_SCALAR_EVENT)
		return node_error(reader, event, "expected a name, found a list or mapping");
	nesting->levels[nesting->depth].expects_value = is_key;
	if (event->type == YAML_SCALAR_EVENT)
		return WEIR_OK;
	if (nesting->depth == NODE_DEPTH_MAX)
		return node_error(reader, event, "expected at most %d levels, found more", NODE_DEPTH_MAX);
	nesting->depth++;
	nesting->levels[nesting->depth].is_mapping = event->type == YAML_MAPPING_START_EVENT;
	nesting->levels[nesting->depth].expects_value = false;
	return WEIR_OK;
}

static int check_event(struct reader *reader, const yaml_event_t *event, struct nesting *nesting)
{
	switch (event->type) {
	case YAML_DOCUMENT_START_EVENT:
		if (nesting->has_document)
			return node_error(reader, event, "expected one document, found a second one");
		nesting->has_document = true;
		return WEIR_OK;
	case YAML_ALIAS_EVENT:
		return node_error(
		    reader, event,
		    "expected values written out, found an alias; quote text that begins with *");
	case YAML_SCALAR_EVENT:
		return check_node(reader, event, event->data.scalar.tag, nesting);
	case YAML_SEQUENCE_START_EVENT:
		return check_node(reader, event, event->data.sequence_start.tag, nesting);
	case YAML_MAPPING_START_EVENT:
		return check_node(reader, event, event->data.mapping_start.tag, nesting);
	case YAML_SEQUENCE_END_EVENT:
	case YAML_MAPPING_END_EVENT:
		nesting->depth--;
		return WEIR_OK;
	default:
		return WEIR_OK;
	}
}

/* The first pass over the events, see above. */
static int refuse_unsafe_yaml(struct reader *reader, struct slice text)
{
	struct nesting nesting = {0};
	yaml_parser_t parser;
	int status = WEIR_OK;
	bool has_more = true;

	if (!open_parser(&parser, text))
		return node_no_memory(reader);
	while (has_more && status == WEIR_OK) {
		yaml_event_t event;

		if (yaml_parser_parse(&parser, &event)) {
			has_more = event.type != YAML_STREAM_END_EVENT;
			status = check_event(reader, &event, &nesting);
			yaml_event_delete(&event);
		} else {
			status = report_syntax_error(&parser, text, reader->error);
		}
	}
	yaml_parser_delete(&parser);
	return status;
}

/* The second pass: makes the tree and reads it into the configuration. */
static int read_tree(struct reader *reader, struct slice text)
{
	yaml_document_t document;
	yaml_parser_t parser;
	const yaml_node_t *root;
	int status = WEIR_OK;

	if (!open_parser(&parser, text))
		return node_no_memory(reader);
	if (yaml_parser_load(&parser, &document)) {
		reader->document = &document;
		root = yaml_document_get_root_node(&document);
		if (root && !node_is_nothing(root))
			status = node_mapping(reader, root, &file_table, 0, reader->config, NULL);
		yaml_document_delete(&document);
	} else {
		status = report_syntax_error(&parser, text, reader->error);
	}
	yaml_parser_delete(&parser);
	return status;
}

int yaml_read(struct weir_config *config, const struct source *source, struct weir_error *error)
{
	struct reader reader = {
	    .config = config, .error = error, .file = source->file, .directory = source->directory};
	struct slice rest = source->text;
	int status;

	/* libyaml would count a byte order mark as a column, and so as indentation. */
	slice_skip(&rest, SLICE("\xef\xbb\xbf"));
	status = refuse_unsafe_yaml(&reader, rest) ?: read_tree(&reader, rest);
	/* After a mistake these may be half read. */
	if (status != WEIR_OK)
		config->limit_count = config->rule_count = config->user_count = 0;
	return status;
}

void yaml_print(const struct weir_config *config, const struct weir_config *defaults,
                struct buffer *out)
{
	const struct printer printer = {config, out};

	if (node_print(&printer, &(struct node_object){&file_table, 0, config, defaults}, "\n"))
		buffer_add(out, "\n", 1);
}
