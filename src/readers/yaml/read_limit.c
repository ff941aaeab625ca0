/*
 * read_limit.c: parses and prints `limits:` of a rule file in YAML, a mapping of names to limits.
 * Each limit has an algorithm, its parameters, and settings for the store that has its counts.
 */
#include <stdio.h>

#include "algo/algo.h"
#include "readers/yaml/read.h"
#include "rules/rate.h"
#include "rules/scalar.h"
#include "rules/show.h"

/* Bits that say which of the keys of stores a limit may have; see variant_of. */
enum { NO_OWN_STORE = 1, OWN_STORE = 2, TAKES_CHUNKS = 4 };

/* Suggests a valid rate for one like 5/sec, here "5/s". Returns NULL if it has no suggestion. */
static const char *suggest_rate(const yaml_node_t *value, char text[RATE_TEXT_MAX])
{
	return value->type == YAML_SCALAR_NODE && rate_meant(node_slice(value), text) ? text : NULL;
}

/* Reads the value of one parameter, by its type, into its field of the options. */
static int read_parameter(struct reader *reader, const struct algo_parameter *parameter,
                          const yaml_node_t *value, struct weir_limit_options *options)
{
	struct node_key key = {.name = parameter->name,
	                       .words = parameter->words,
	                       .min = parameter->min,
	                       .max = parameter->max};
	void *field = parameter_writable(parameter, options);
	char text[RATE_TEXT_MAX];
	uint64_t number;
	int status;

	switch (parameter->type) {
	case ALGO_RATE:
	case ALGO_CALENDAR_RATE:
		if (value->type == YAML_SCALAR_NODE && rate_parse(node_slice(value), field))
			return WEIR_OK;
		return node_error(reader, value,
		                  "expected a rate of whole numbers from 1 with a unit of " RATE_UNITS
		                  ", such as 5/s, 10/100ms or 100/month, found %s",
		                  node_found_near(value, suggest_rate(value, text)).text);
	case ALGO_DECIMAL:
		return node_read_decimal(reader, &key, value, field);
	case ALGO_WORD:
		return node_read_word(reader, &key, value, field);
	case ALGO_TEXT:
		return node_read_text(reader, &key, value, field);
	case ALGO_PERCENT:
		key.expected = "a part of the calls from 1% to 100% such as 50%";
		return read_percent(reader, &key, value, field);
	case ALGO_NUMBER:
		status = node_read_number(reader, &key, value, &number);
		break;
	default:
		key.expected = key.min ? "a time from 1ms to a year such as 1s or 100ms"
		                       : "a time of a year at most such as 30s or 100ms";
		status = node_read_duration(reader, &key, value, &number);
		break;
	}
	if (status == WEIR_OK)
		parameter_set(parameter, number, options);
	return status;
}

static int read_algorithm(struct reader *reader, const yaml_node_t *limit,
                          struct weir_limit_options *options)
{
	const struct node_key key = {"algorithm", .words = algorithm_words()};
	const yaml_node_t *value = node_find_value(reader, limit, key.name);

	if (!value)
		return node_error(reader, limit, "expected algorithm in a limit, found none");
	return node_read_word(reader, &key, value, &options->algorithm);
}

/* The keys of every algorithm's limits, behind those of its parameters. */
static const struct node_key store_keys[] = {
    {"on_store_failure", &node_word, offsetof(struct rules_limit, on_store_failure),
     .words = rules_failures},
    {"store", &read_limit_store_kind, offsetof(struct rules_limit, store), OWN_STORE},
    {"chunk", &read_percent_kind, offsetof(struct rules_limit, chunk_percent), TAKES_CHUNKS,
     .expected = "a part of the quota from 1% to 100% such as 5%"},
};

enum { STORE_KEYS = sizeof store_keys / sizeof *store_keys };

static const struct node_table store_table = {"a limit", store_keys, STORE_KEYS};

/*
 * Returns whether the limits of an algorithm can name a store of their own, and can take counts
 * from it in chunks. Units of a bucket or a window are alike, so a server can take a chunk of them
 * and hand them out later. Units of a sliding limit would expire too early, and the turn of a paced
 * limit belongs to one request.
 */
static unsigned variant_of(const struct algorithm *algorithm)
{
	if (algorithm->draws || algorithm->judges)
		return NO_OWN_STORE;
	return algorithm->record == ALGO_RECORD_NONE && !algorithm->paced ? OWN_STORE | TAKES_CHUNKS
	                                                                  : OWN_STORE;
}

/* The table of keys of one algorithm's limits, and the values that a limit has for them. */
struct limit_keys {
	struct node_key keys[1 + ALGO_PARAMETERS_MAX + STORE_KEYS];
	struct node_table table;
	const yaml_node_t *values[NODE_KEYS_MAX];
};

_Static_assert(1 + ALGO_PARAMETERS_MAX + STORE_KEYS <= NODE_KEYS_MAX, "a node has room for them");

static void make_table(struct limit_keys *limit, const struct algorithm *algorithm)
{
	size_t n = 0;

	limit->keys[n++] = (struct node_key){"algorithm"};
	for (const struct algo_parameter *parameter = algorithm->parameters; parameter->name;
	     parameter++)
		limit->keys[n++] = (struct node_key){parameter->name, .required = parameter->required};
	memcpy(limit->keys + n, store_keys, sizeof store_keys);
	n += STORE_KEYS;
	limit->table = (struct node_table){algorithm->name, limit->keys, n};
}

/*
 * Has the algorithm check the options. Its message begins with the name of a parameter, "rate:
 * expected …", from which the position of the error follows.
 */
static int check_with_algorithm(struct reader *reader, const struct weir_limit_options *options,
                                const yaml_node_t *node, const struct limit_keys *keys)
{
	struct algo_limit algo;
	struct weir_error error = {0};
	const char *message = error.message;
	int status = algo_limit_init(&algo, options, &error);

	if (status == WEIR_OK) {
		algo_limit_free(&algo);
		return WEIR_OK;
	}
	if (status == WEIR_ENOMEM)
		return node_no_memory(reader);
	for (size_t i = 0; i < keys->table.count; i++) {
		size_t len = strlen(keys->keys[i].name);

		if (strncmp(message, keys->keys[i].name, len) == 0 &&
		    strncmp(message + len, ": ", 2) == 0) {
			node = keys->values[i] ? keys->values[i] : node;
			message += len + 2;
			break;
		}
	}
	return node_error(reader, node, "%s", message);
}

/* Reads the keys of a limit, which depend on its algorithm. */
static int read_parameters(struct reader *reader, const yaml_node_t *node,
                           struct rules_limit *limit)
{
	const struct algorithm *algorithm = algorithm_of(limit->options.algorithm);
	struct limit_keys keys;
	int status;

	make_table(&keys, algorithm);
	if (algorithm->own) {
		void *private_options = arena_alloc(&reader->config->arena, algorithm->own_size);

		if (!private_options)
			return node_no_memory(reader);
		parameter_set_own(algorithm->own, private_options, &limit->options);
	}
	status = node_mapping(reader, node, &keys.table, variant_of(algorithm), limit, keys.values);
	for (size_t i = 0; algorithm->parameters[i].name && status != WEIR_ENOMEM; i++)
		if (keys.values[i + 1])
			status = node_merge_status(reader, status,
			                           read_parameter(reader, &algorithm->parameters[i],
			                                          keys.values[i + 1], &limit->options));
	return status == WEIR_OK ? check_with_algorithm(reader, &limit->options, node, &keys) : status;
}

static int read_limit(struct reader *reader, struct node_name *name, const yaml_node_t *node,
                      void *element)
{
	struct rules_limit *limit = element;
	int status = node_name(reader, name->node, &limit->options.name);

	limit->file = reader->file;
	limit->line = (unsigned)name->node->start_mark.line + 1;
	limit->column = (unsigned)name->node->start_mark.column + 1;
	if (status == WEIR_OK && rules_reserved_name(slice_of(limit->options.name)))
		return node_error(reader, name->node,
		                  "expected a name other than a command's, found \"%s\"",
		                  limit->options.name);
	return status ?: node_check_type(reader, node, YAML_MAPPING_NODE,
	                             "a limit such as { algorithm: NAME, rate: 5/s }") ?:
	       read_algorithm(reader, node, &limit->options) ?: read_parameters(reader, node, limit);
}

static int read_limits(struct reader *reader, const struct node_key *key, const yaml_node_t *value,
                       void *field)
{
	static const struct node_items limits = {.type = YAML_MAPPING_NODE,
	                                         .expected = "a mapping of names to limits",
	                                         .size = sizeof(struct rules_limit),
	                                         .read = read_limit};
	struct node_array *array = field;
	struct node_name *names = NULL;
	int status = node_items(reader, value, &limits, array, &names);

	(void)key;
	reader->limits = names;
	reader->limits_unreadable = !names;
	return names && status != WEIR_ENOMEM
	           ? node_merge_status(reader, status,
	                               node_names_sort(reader, names, array->count, "limit"))
	           : status;
}

static void print_parameter(const struct algo_parameter *parameter,
                            const struct weir_limit_options *options, struct buffer *out)
{
	struct buffer value = {0};

	rules_show_value(parameter, options, &value);
	buffer_printf(out, ", %s: ", parameter->name);
	scalar_add(out, (struct slice){value.data, value.len});
	out->failed |= value.failed;
	buffer_free(&value);
}

static void print_limit(const struct printer *printer, const struct rules_limit *limit)
{
	const struct algorithm *algorithm = algorithm_of(limit->options.algorithm);
	const struct rules_limit none = {0};
	struct buffer *out = printer->out;
	size_t end_of_parameters;

	buffer_add_text(out, "\n  ");
	scalar_add(out, slice_of(limit->options.name));
	buffer_printf(out, ": { algorithm: %s", algorithm->name);
	for (const struct algo_parameter *parameter = algorithm->parameters; parameter->name;
	     parameter++)
		if (parameter_is_given(parameter, &limit->options))
			print_parameter(parameter, &limit->options, out);
	end_of_parameters = out->len;
	buffer_add_text(out, ", ");
	if (!node_print(printer,
	                &(struct node_object){&store_table, variant_of(algorithm), limit, &none}, ", "))
		out->len = end_of_parameters;
	buffer_add_text(out, " }");
}

static bool print_limits(const struct printer *printer, const struct node_key *key,
                         const void *field, const void *default_value)
{
	const struct node_array *array = field;
	const struct rules_limit *limits = array->elements;

	(void)key;
	(void)default_value;
	for (size_t i = 0; i < array->count; i++)
		print_limit(printer, &limits[i]);
	return array->count > 0;
}

const struct node_kind read_limits_kind = {read_limits, print_limits};
