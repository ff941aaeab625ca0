/*
 * koala_condition.c: parses the conditions of a rule in a Koala rule file, such as
 * `act=ask; uid>5; ip @ crawlers`. Their attributes (act, uid, ip) also make up the key by which
 * the rule counts requests.
 */
#include <stdlib.h>

#include <weir/engine.h>

#include "readers/koala/koala.h"
#include "rules/attribute.h"
#include "rules/form.h"

/* An operator such as != and the function that reads the values behind it. */
struct condition_operator {
	struct slice text;
	void (*read)(struct koala *koala, struct slice text, struct rules_condition *out);
	bool negated;
};

static struct rules_value *allocate_values(struct koala *koala, size_t count,
                                           struct rules_condition *condition)
{
	struct rules_value *values = arena_array(&koala->config->arena, count, sizeof *values);

	if (!values)
		koala->no_memory = true;
	condition->values = values;
	condition->value_count = values ? count : 0;
	return values;
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* Shortens numbers in place: 010.000.024.* becomes 10.0.24.*. Returns the new length. */
static size_t remove_leading_zeros(char *text, size_t len)
{
	size_t n = 0;

	for (size_t i = 0; i < len; i++) {
		bool is_start_of_number = i == 0 || !is_digit(text[i - 1]);

		while (is_start_of_number && text[i] == '0' && i + 1 < len && is_digit(text[i + 1]))
			i++;
		text[n++] = text[i];
	}
	return n;
}

/*
 * Reads an address, range or pattern with leading zeros, as Koala allows them: 010.000.024.*.
 * Returns false, and changes nothing, if the text has no such zeros or is none of these.
 */
static bool read_address_without_zeros(struct koala *koala, struct slice text,
                                       struct rules_value *out)
{
	char *copy = koala_copy(koala, text);
	struct rules_value value = {.test = RULES_EQUAL, .text = {copy, text.len}};
	const char *expected;

	if (!copy || text.len == 0 || !memchr(text.data, '.', text.len))
		return false;
	value.text.len = remove_leading_zeros(copy, text.len);
	if (value.text.len == text.len || form_read(&value, false, &expected) != FORM_READ)
		return false;
	*out = value;
	return true;
}

/* Reads one value of a list, and warns if it is text that looks like a slip. */
static void read_value(struct koala *koala, struct slice text, bool is_first,
                       const struct rules_condition *condition, struct rules_value *out)
{
	bool is_ip = strcmp(condition->attribute, "ip") == 0;
	const char *expected, *copy = koala_copy(koala, text);
	bool is_plain_text;

	*out = (struct rules_value){.test = RULES_EQUAL, .text = {copy, copy ? text.len : 0}};
	if (slice_equal(text, SLICE("+"))) {
		out->test = RULES_ANY;
		out->text = SLICE("*"); /* as in YAML */
		return;
	}
	if (copy && form_read(out, is_ip, &expected) == FORM_WRONG) {
		koala_expected(koala, text, expected);
		return;
	}
	is_plain_text = out->test == RULES_EQUAL;
	if (!is_plain_text || read_address_without_zeros(koala, text, out))
		return;
	if (!koala_warn_of_slip(koala, text, is_first, condition) && is_ip)
		koala_warning(koala, text.data,
		              "expected an address, or a form of several, found %s: no "
		              "address is equal to it",
		              phrase_quote(text).text);
}

/* Cuts the next value off *rest, and skips empty ones. Returns false at the end of the list. */
static bool next_value(struct slice *rest, struct slice *value)
{
	do {
		if (rest->len == 0)
			return false;
		*value = slice_trim(slice_cut(rest, ','));
	} while (value->len == 0);
	return true;
}

/* Reads values separated by commas. They are counted first, to allocate the array. */
static void read_list(struct koala *koala, struct slice text, struct rules_condition *out)
{
	struct slice rest = text, value;
	struct rules_value *values;
	size_t commas = 0, count = 0;

	for (size_t i = 0; i < text.len; i++)
		commas += text.data[i] == ',';
	while (next_value(&rest, &value))
		count++;
	if (count == 0)
		koala_expected(koala, text, "a value");
	else if (count <= commas)
		koala_warning(koala, text.data, "expected a value before and behind each comma, found %s",
		              phrase_quote(text).text);
	values = allocate_values(koala, count, out);
	for (size_t i = 0; values && next_value(&text, &value); i++)
		read_value(koala, value, i == 0, out, &values[i]);
}

/* Reads the number behind > or <. The model also stores the text with the sign, for printing. */
static void read_bound(struct koala *koala, struct slice text, struct rules_condition *out,
                       char sign, bool (*read)(struct slice text, struct rules_value *out))
{
	struct rules_value *value = allocate_values(koala, 1, out);
	char *copy = arena_alloc(&koala->config->arena, text.len + 2);

	if (!value || !copy) {
		koala->no_memory = true;
		return;
	}
	*copy = sign;
	memcpy(copy + 1, text.data, text.len);
	value->text = (struct slice){copy, text.len + 1};
	if (!read(text, value))
		koala_expected(koala, text, "a whole number of 64 bits that others are beyond");
}

static void read_above(struct koala *koala, struct slice text, struct rules_condition *out)
{
	read_bound(koala, text, out, '>', form_above);
}

static void read_below(struct koala *koala, struct slice text, struct rules_condition *out)
{
	read_bound(koala, text, out, '<', form_below);
}

/* Sets the value to the dictionary that the text names, a list of values in a file. */
static void read_dictionary_name(struct koala *koala, struct slice text,
                                 struct rules_condition *out)
{
	struct koala_dictionary *dictionary = koala_dictionary(koala, text);
	struct rules_value *value = allocate_values(koala, 1, out);

	if (!dictionary) {
		koala_expected(koala, text, "the name of a dictionary of the section [dicts]");
		return;
	}
	dictionary->is_used = true;
	if (value)
		*value = dictionary->value;
}

/* Longer operators first, since the first that fits is taken. */
static const struct condition_operator operators[] = {
    {SLICE("!="), read_list, true}, {SLICE("!@"), read_dictionary_name, true},
    {SLICE("="), read_list},        {SLICE(">"), read_above},
    {SLICE("<"), read_below},       {SLICE("@"), read_dictionary_name},
};

static const struct condition_operator *find_operator(struct slice text)
{
	for (size_t i = 0; i < sizeof operators / sizeof *operators; i++) {
		struct slice rest = text;

		if (slice_skip(&rest, operators[i].text))
			return &operators[i];
	}
	return NULL;
}

/* Cuts {~} off the end, the mark of values that share one count. Returns whether it was there. */
static bool cut_combining_mark(struct slice *text)
{
	struct slice end = SLICE("{~}");

	if (text->len < end.len || memcmp(text->data + text->len - end.len, end.data, end.len) != 0)
		return false;
	*text = slice_trim((struct slice){text->data, text->len - end.len});
	return true;
}

/*
 * Reads the name of an attribute, which Koala calls a parameter. Returns a copy, or NULL if its
 * length is wrong or memory is short. After other errors it returns the copy, too, so that the rest
 * of the condition is read.
 */
static const char *read_name(struct koala *koala, struct slice name)
{
	struct weir_error error;
	const char *copy;

	if (name.len == 0 || name.len > RULES_NAME_MAX) {
		koala_expected(koala, name, "the name of a parameter, of 1 to 64 bytes");
		return NULL;
	}
	if (*name.data == '_')
		koala_warning(
		    koala, name.data,
		    "expected a parameter that does not begin with _, found %s: no condition can match it",
		    phrase_quote(name).text);
	copy = koala_copy(koala, name);
	if (copy && attribute_use(koala->config, copy, &error) != WEIR_OK)
		koala_error(koala, name.data, "%s", error.message);
	return copy;
}

/*
 * Reads a condition such as uid!=7. Sets *combines if its values share one count. Returns false if
 * it is not a condition, after an error.
 */
static bool read_condition(struct koala *koala, struct slice text, struct rules_condition *out,
                           bool *combines)
{
	size_t length = 0;
	const struct condition_operator *op = NULL;
	struct slice values;

	while (length < text.len && !memchr("=!<>@", text.data[length], 5))
		length++;
	op = find_operator((struct slice){text.data + length, text.len - length});
	if (!op) {
		koala_expected(koala, text, "a condition such as act=ask, uid>5, uid!=7 or ip @ crawlers");
		return false;
	}
	out->attribute = read_name(koala, slice_trim((struct slice){text.data, length}));
	out->line = koala->line_number;
	out->column = koala_column(koala, text.data);
	length += op->text.len;
	values = slice_trim((struct slice){text.data + length, text.len - length});
	*combines = cut_combining_mark(&values);
	out->negated = op->negated;
	if (out->attribute)
		op->read(koala, values, out);
	return out->attribute != NULL;
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/*
 * Sets the rule's key to the attributes of its conditions, each once and in alphabetical order. An
 * attribute is left out if one of its conditions combines its values.
 */
static void make_key(struct koala *koala, struct rules_rule *rule, const bool *combines)
{
	const char **key = arena_array(&koala->config->arena, rule->condition_count, sizeof *key);
	size_t count = 0, n = 0;

	if (!key) {
		koala->no_memory = true;
		return;
	}
	for (size_t i = 0; i < rule->condition_count; i++) {
		bool is_combined = false;

		for (size_t j = 0; j < rule->condition_count; j++)
			is_combined |= combines[j] && strcmp(rule->conditions[i].attribute,
			                                     rule->conditions[j].attribute) == 0;
		if (!is_combined)
			key[count++] = rule->conditions[i].attribute;
	}
	if (count > 0)
		qsort(key, count, sizeof *key, compare_names);
	for (size_t i = 0; i < count; i++)
		if (n == 0 || strcmp(key[n - 1], key[i]) != 0)
			key[n++] = key[i];
	rule->key = key;
	rule->key_count = n;
}

/* Whether a condition has a range. Then the rule compares addresses as numbers. */
static bool has_ranges(const struct rules_rule *rule)
{
	for (size_t i = 0; i < rule->condition_count; i++)
		for (size_t j = 0; j < rule->conditions[i].value_count; j++) {
			enum rules_test test = rule->conditions[i].values[j].test;

			if (test == RULES_IP_RANGE || test == RULES_IP_PATTERN || test == RULES_NUMBERS)
				return true;
		}
	return false;
}

/*
 * Copies the conditions so that those on one attribute are adjacent, in the order of the first of
 * each attribute, because a rule is printed as a mapping from attributes to conditions.
 */
static void group_by_attribute(const struct rules_condition *from, size_t count,
                               struct rules_condition *out)
{
	size_t n = 0;

	for (size_t i = 0; i < count; i++) {
		bool first = true;

		for (size_t j = 0; j < i && first; j++)
			first = strcmp(from[j].attribute, from[i].attribute) != 0;
		for (size_t j = i; j < count && first; j++)
			if (strcmp(from[j].attribute, from[i].attribute) == 0)
				out[n++] = from[j];
	}
}

void koala_read_conditions(struct koala *koala, struct slice text, struct rules_rule *rule)
{
	struct rules_condition conditions[WEIR_ATTRIBUTES_MAX] = {0}, *copy;
	bool combines[WEIR_ATTRIBUTES_MAX];
	const char *begin = text.data;
	bool has_any = false;
	size_t n = 0;

	while (text.len > 0) {
		struct slice part = slice_trim(slice_cut(&text, ';'));

		if (part.len == 0)
			continue;
		has_any = true;
		if (n == WEIR_ATTRIBUTES_MAX) {
			koala_error(koala, part.data, "expected at most %d conditions, found more",
			            WEIR_ATTRIBUTES_MAX);
			break;
		}
		n += read_condition(koala, part, &conditions[n], &combines[n]);
	}
	if (!has_any)
		koala_warning(koala, begin,
		              "expected conditions, found none: the rule applies to every request");
	copy = arena_array(&koala->config->arena, n, sizeof *copy);
	if (!copy) {
		koala->no_memory = true;
		return;
	}
	/* The key is made from the conditions in the order of `combines`, before they are grouped. */
	rule->conditions = conditions;
	rule->condition_count = n;
	rule->ip_numbers = has_ranges(rule) ? RULES_YES : RULES_UNSET;
	make_key(koala, rule, combines);
	group_by_attribute(conditions, n, copy);
	rule->conditions = copy;
}
