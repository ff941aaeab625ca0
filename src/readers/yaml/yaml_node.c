/*
 * yaml_node.c: reads mappings and lists of a rule file in YAML into structs. A table describes each
 * mapping: which keys it may have, and the field and the type of each. Mistakes such as unknown or
 * missing keys are found and reported here, for all mappings alike.
 */
#include "readers/yaml/yaml_node.h"

#include <assert.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/number.h"
#include "base/text/misspelling.h"
#include "rules/rate.h"
#include "rules/remark.h"
#include "rules/show.h"

static_assert(sizeof(enum rules_mode) == sizeof(unsigned), "node_word writes enums");

struct phrase node_found(const yaml_node_t *node)
{
	struct phrase found = {0};

	if (node->type == YAML_SCALAR_NODE && !node_is_nothing(node))
		return phrase_quote(node_slice(node));
	phrase_add(&found, node->type == YAML_MAPPING_NODE    ? SLICE("a mapping")
	                   : node->type == YAML_SEQUENCE_NODE ? SLICE("a list")
	                                                      : SLICE("nothing"));
	return found;
}

struct phrase node_found_near(const yaml_node_t *node, const char *meant)
{
	struct phrase found = node_found(node);

	if (meant && found.len + strlen(meant) + sizeof ": did you mean \"\"?" < sizeof found.text)
		found.len += (size_t)sprintf(found.text + found.len, ": did you mean \"%s\"?", meant);
	return found;
}

int node_expected(struct reader *reader, const yaml_node_t *node, const char *what)
{
	return node_error(reader, node, "expected %s, found %s", what, node_found(node).text);
}

int node_no_memory(struct reader *reader)
{
	return error_set(reader->error, WEIR_ENOMEM, "%s", weir_strerror(WEIR_ENOMEM));
}

const yaml_node_t *node_at(struct reader *reader, int id)
{
	return yaml_document_get_node(reader->document, id);
}

int node_check_type(struct reader *reader, const yaml_node_t *node, yaml_node_type_t type,
                    const char *what)
{
	return node->type == type ? WEIR_OK : node_expected(reader, node, what);
}

const yaml_node_t *node_find_value(struct reader *reader, const yaml_node_t *node, const char *name)
{
	const yaml_node_pair_t *pairs = node->data.mapping.pairs.start;

	for (size_t i = 0; i < node_pair_count(node); i++)
		if (slice_equal(node_slice(node_at(reader, pairs[i].key)), slice_of(name)))
			return node_at(reader, pairs[i].value);
	return NULL;
}

/*
 * Lets a mapping or a list be read on after a part of it had a mistake: adds a remark about the
 * mistake, sets *had_mistake and returns WEIR_OK. Only WEIR_ENOMEM ends the reading.
 */
static int continue_after(struct reader *reader, int status, bool *had_mistake)
{
	struct weir_error *error = reader->error;

	if (status == WEIR_OK || status == WEIR_ENOMEM)
		return status;
	*had_mistake = true;
	if (!*error->message) /* a mistake in a part of the part, which has its remark already */
		return WEIR_OK;
	status = remark_add(reader->config, REMARK_ERROR(reader->file, error->line, error->column),
	                    "%s", error->message);
	*error = (struct weir_error){0};
	return status == WEIR_OK ? WEIR_OK : node_no_memory(reader);
}

int node_merge_status(struct reader *reader, int first, int second)
{
	bool had_mistake = first != WEIR_OK;
	int status = continue_after(reader, second, &had_mistake);

	return status == WEIR_OK && had_mistake ? WEIR_EINVAL : status;
}

/* Whether objects of the kind `variant`, a bit, may have the key. */
static bool has_key(const struct node_key *key, unsigned variant)
{
	return key->variants == 0 || (key->variants & variant);
}

/* The pairs of a mapping in the order of its table; `variant` as in has_key. */
struct pairs {
	const struct node_table *table;
	unsigned variant;
	const yaml_node_t *keys[NODE_KEYS_MAX], *values[NODE_KEYS_MAX]; /* NULL if the key is absent */
	bool has_misspelled_key[NODE_KEYS_MAX]; /* the key is there, but probably misspelled */
};

static int report_unknown_key(struct reader *reader, const yaml_node_t *node, struct pairs *pairs)
{
	const struct node_table *table = pairs->table;
	struct phrase known = {0};
	const char *probable = NULL;

	for (size_t i = 0; i < table->count; i++) {
		const char *name = table->keys[i].name;

		if (table->keys[i].hidden || !has_key(&table->keys[i], pairs->variant))
			continue;
		phrase_add(&known, slice_of(name));
		if (!probable && is_misspelling(node_slice(node), slice_of(name))) {
			probable = name;
			pairs->has_misspelled_key[i] = true;
		}
	}
	return node_error(reader, node, "expected a key of %s (%s), found %s", table->what, known.text,
	                  node_found_near(node, probable).text);
}

/* Stores a pair of the mapping at its row of the table; an error for unknown and repeated keys. */
static int assign_pair(struct reader *reader, const yaml_node_pair_t *pair, struct pairs *pairs)
{
	const struct node_table *table = pairs->table;
	const yaml_node_t *key = node_at(reader, pair->key);
	size_t row = 0;

	while (row < table->count && !(has_key(&table->keys[row], pairs->variant) &&
	                               slice_equal(node_slice(key), slice_of(table->keys[row].name))))
		row++;
	if (row == table->count)
		return report_unknown_key(reader, key, pairs);
	if (pairs->values[row])
		return node_error(
		    reader, key,
		    "expected each key of %s once, found \"%s\" again: the first is in line %u",
		    table->what, table->keys[row].name, (unsigned)pairs->keys[row]->start_mark.line + 1);
	pairs->keys[row] = key;
	pairs->values[row] = node_at(reader, pair->value);
	return WEIR_OK;
}

static int read_key_value(struct reader *reader, const struct node_key *key,
                          const yaml_node_t *value, char *object)
{
	if (key->presence_flag)
		*(bool *)(object + key->presence_flag) = true;
	return key->kind ? key->kind->read(reader, key, value, object + key->offset) : WEIR_OK;
}

/* Reads the value of a row, or reports that a required key is missing. */
static int read_key(struct reader *reader, const yaml_node_t *node, const struct pairs *pairs,
                    size_t row, void *object)
{
	const struct node_key *key = &pairs->table->keys[row];

	if (pairs->values[row])
		return read_key_value(reader, key, pairs->values[row], object);
	if (key->required && has_key(key, pairs->variant) && !pairs->has_misspelled_key[row])
		return node_error(reader, node, "expected %s in %s, found none", key->name,
		                  pairs->table->what);
	return WEIR_OK;
}

int node_mapping(struct reader *reader, const yaml_node_t *node, const struct node_table *table,
                 unsigned variant, void *object, const yaml_node_t *values[NODE_KEYS_MAX])
{
	struct pairs pairs = {.table = table, .variant = variant};
	bool had_mistake = false;
	char expected[64];
	int status;

	snprintf(expected, sizeof expected, "%s as a mapping", table->what);
	status = node_check_type(reader, node, YAML_MAPPING_NODE, expected);
	if (status != WEIR_OK)
		return status;
	for (size_t i = 0; i < node_pair_count(node) && status == WEIR_OK; i++)
		status = continue_after(
		    reader, assign_pair(reader, &node->data.mapping.pairs.start[i], &pairs), &had_mistake);
	for (size_t i = 0; i < table->count && status == WEIR_OK; i++)
		status = continue_after(reader, read_key(reader, node, &pairs, i, object), &had_mistake);
	if (values)
		memcpy(values, pairs.values, sizeof pairs.values);
	return status == WEIR_OK && had_mistake ? WEIR_EINVAL : status;
}

static bool has_no_control_characters(struct slice text)
{
	for (size_t i = 0; i < text.len; i++)
		if ((unsigned char)text.data[i] < 0x20 || text.data[i] == 0x7f)
			return false;
	return true;
}

int node_read_text(struct reader *reader, const struct node_key *key, const yaml_node_t *value,
                   void *field)
{
	const char **out = field;
	struct slice text;
	char expected[96];

	if (value->type == YAML_SCALAR_NODE) {
		text = node_slice(value);
		if (text.len >= key->min && text.len <= key->max && has_no_control_characters(text)) {
			*out = arena_copy(&reader->config->arena, text);
			return *out ? WEIR_OK : node_no_memory(reader);
		}
	}
	snprintf(expected, sizeof expected, "%s of %u to %u bytes without control characters",
	         key->name, (unsigned)key->min, (unsigned)key->max);
	return node_expected(reader, value, expected);
}

int node_name(struct reader *reader, const yaml_node_t *node, const char **out)
{
	static const struct node_key name = {.name = "a name", .min = 1, .max = RULES_NAME_MAX};

	return node_read_text(reader, &name, node, out);
}

int node_read_number(struct reader *reader, const struct node_key *key, const yaml_node_t *value,
                     void *field)
{
	uint64_t *out = field;
	char expected[96];

	if (value->type == YAML_SCALAR_NODE && parse_u64(node_slice(value), out) && *out >= key->min &&
	    *out <= key->max)
		return WEIR_OK;
	snprintf(expected, sizeof expected, "a whole number from %llu to %llu",
	         (unsigned long long)key->min, (unsigned long long)key->max);
	return node_expected(reader, value, expected);
}

int node_read_decimal(struct reader *reader, const struct node_key *key, const yaml_node_t *value,
                      void *field)
{
	double *number = field;
	char expected[80];

	if (value->type == YAML_SCALAR_NODE && parse_decimal(node_slice(value), number) &&
	    *number >= (double)key->min && *number <= (double)key->max)
		return WEIR_OK;
	snprintf(expected, sizeof expected, "a number from %llu to %llu such as %s",
	         (unsigned long long)key->min, (unsigned long long)key->max,
	         key->max == 1 ? "0.25" : "2.5");
	return node_expected(reader, value, expected);
}

int node_read_duration(struct reader *reader, const struct node_key *key, const yaml_node_t *value,
                       void *field)
{
	uint64_t *ns = field;

	if (value->type == YAML_SCALAR_NODE && duration_parse(node_slice(value), ns) &&
	    *ns >= key->min && *ns <= key->max)
		return WEIR_OK;
	return node_expected(reader, value, key->expected);
}

/* The word that the text is probably meant as: misspelled, shortened, or another program's. */
static const char *probable_word(struct slice text, const struct word *words)
{
	const char *probable = NULL;

	for (const struct word *word = words; word->name; word++) {
		struct slice name = slice_of(word->name), rest = name;
		bool is_shortened = text.len > 3 && slice_skip(&rest, text);

		if (word->is_foreign && slice_equal_nocase(text, name))
			return rules_word(words, word->value);
		if (!word->is_foreign && !probable && (is_shortened || is_misspelling(text, name)))
			probable = word->name;
	}
	return probable;
}

int node_read_word(struct reader *reader, const struct node_key *key, const yaml_node_t *value,
                   void *field)
{
	bool is_scalar = value->type == YAML_SCALAR_NODE;
	struct phrase known = {0};
	const char *probable = is_scalar ? probable_word(node_slice(value), key->words) : NULL;

	for (const struct word *word = key->words; word->name && !word->is_foreign; word++) {
		if (is_scalar && slice_equal(node_slice(value), slice_of(word->name))) {
			*(unsigned *)field = word->value;
			return WEIR_OK;
		}
		phrase_add(&known, slice_of(word->name));
	}
	return node_error(reader, value, "expected %s to be one of %s, found %s", key->name, known.text,
	                  node_found_near(value, probable).text);
}

int node_warning(struct reader *reader, const yaml_node_t *node, const char *format, ...)
{
	char text[512];
	va_list args;

	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	return remark_add(reader->config,
	                  REMARK_WARNING(reader->file, (unsigned)node->start_mark.line + 1,
	                                 (unsigned)node->start_mark.column + 1),
	                  "%s", text) == WEIR_OK
	           ? WEIR_OK
	           : node_no_memory(reader);
}

static int compare_text(struct slice a, struct slice b)
{
	int order = memcmp(a.data, b.data, u64_min(a.len, b.len));

	return order ? order : (a.len > b.len) - (a.len < b.len);
}

static int compare_names(const void *a, const void *b)
{
	const struct node_name *left = a, *right = b;
	int order = compare_text(left->text, right->text);

	return order ? order : (left->index > right->index) - (left->index < right->index);
}

int node_names_sort(struct reader *reader, struct node_name *names, size_t count, const char *what)
{
	bool had_mistake = false;
	int status = WEIR_OK;

	if (count > 0)
		qsort(names, count, sizeof *names, compare_names);
	for (size_t i = 1, first = 0; i < count && status == WEIR_OK; i++) {
		if (!slice_equal(names[first].text, names[i].text))
			first = i;
		else
			status = continue_after(
			    reader,
			    node_error(reader, names[i].node,
			               "expected each %s once, found \"%.*s\" again: the first is in "
			               "line %u",
			               what, (int)names[i].text.len, names[i].text.data,
			               (unsigned)names[first].node->start_mark.line + 1),
			    &had_mistake);
	}
	return status == WEIR_OK && had_mistake ? WEIR_EINVAL : status;
}

const struct node_name *node_names_find(const struct node_name *names, size_t count,
                                        struct slice text)
{
	size_t low = 0;

	while (low < count) {
		size_t middle = low + (count - low) / 2;
		int order = compare_text(names[middle].text, text);

		if (order == 0)
			return &names[middle];
		if (order < 0)
			low = middle + 1;
		else
			count = middle;
	}
	return NULL;
}

int node_items(struct reader *reader, const yaml_node_t *node, const struct node_items *items,
               struct node_array *out, struct node_name **names)
{
	struct arena *arena = &reader->config->arena;
	bool pairs = items->type == YAML_MAPPING_NODE;
	struct node_name *item_names;
	bool had_mistake = false;
	int status = node_check_type(reader, node, items->type, items->expected);

	if (status != WEIR_OK)
		return status;
	out->count = pairs ? node_pair_count(node) : node_item_count(node);
	if (items->required && out->count == 0)
		return node_error(reader, node, "expected at least one %s, found an empty list",
		                  items->item_name);
	out->elements = arena_array(arena, out->count, items->size);
	item_names = arena_array(arena, out->count, sizeof *item_names);
	if (!out->elements || !item_names)
		return node_no_memory(reader);
	for (size_t i = 0; i < out->count && status == WEIR_OK; i++) {
		const yaml_node_pair_t *pair = &node->data.mapping.pairs.start[i];
		const yaml_node_t *value =
		    node_at(reader, pairs ? pair->value : node->data.sequence.items.start[i]);

		item_names[i] =
		    (struct node_name){.node = pairs ? node_at(reader, pair->key) : value, .index = i};
		if (item_names[i].node->type == YAML_SCALAR_NODE)
			item_names[i].text = node_slice(item_names[i].node);
		status = continue_after(
		    reader,
		    items->read(reader, &item_names[i], value, (char *)out->elements + i * items->size),
		    &had_mistake);
	}
	if (names)
		*names = item_names;
	else if (status == WEIR_OK && !had_mistake && items->item_name)
		status = node_names_sort(reader, item_names, out->count, items->item_name);
	return status == WEIR_OK && had_mistake ? WEIR_EINVAL : status;
}
