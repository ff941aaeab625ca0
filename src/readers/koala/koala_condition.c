/* koala_condition.c: parses the second part of a rule: `act=ask; uid>5; ip @ crawlers`. */
#include <stdlib.h>

#include <weir/engine.h>

#include "readers/koala/koala.h"
#include "rules/attribute.h"
#include "rules/form.h"

/* A condition's operator, and how its values are read. */
struct operator
{
	struct slice text;
	void (*read)(struct koala * koala, struct slice text, struct rules_condition * out);
	bool negated;
};

static struct rules_value *add_values(struct koala *koala, size_t count,
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

/* Takes zeros out that stand before other digits: 010.000.024.* as 10.0.24.*. */
static size_t drop_zeros(char *text, size_t len)
{
	size_t n = 0;

	for (size_t i = 0; i < len; i++) {
		bool begins = i == 0 || !is_digit(text[i - 1]);

		while (begins && text[i] == '0' && i + 1 < len && is_digit(text[i + 1]))
			i++;
		text[n++] = text[i];
	}
	return n;
}

/*
 * Addresses are decimal in Koala, with zeros before their parts or without. Returns false if it is
 * no form. /
 */
static bool read_without_zeros(struct koala *koala, struct slice text, struct rules_value *out)
{
	char *copy = koala_copy(koala, text);
	struct rules_value value = {.test = RULES_EQUAL, .text = {copy, text.len}};
	const char *expected;

	if (!copy || text.len == 0 || !memchr(text.data, '.', text.len))
		return false;
	value.text.len = drop_zeros(copy, text.len);
	if (value.text.len == text.len || form_read(&value, false, &expected) != FORM_READ)
		return false;
	*out = value;
	return true;
}

static void read_value(struct koala *koala, struct slice text, bool is_first,
                       const struct rules_condition *condition, struct rules_value *out)
{
	bool is_ip = strcmp(condition->attribute, "ip") == 0;
	const char *expected, *copy = koala_copy(koala, text);

	*out = (struct rules_value){.test = RULES_EQUAL, .text = {copy, copy ? text.len : 0}};
	if (slice_equal(text, SLICE("+"))) {
		out->test = RULES_ANY;
		out->text = SLICE("*"); /* as in YAML */
	} else if (copy && form_read(out, is_ip, &expected) == FORM_WRONG) {
		koala_expected(koala, text, expected);
	} else if (out->test == RULES_EQUAL && read_without_zeros(koala, text, out)) {
		return;
	} else if (out->test == RULES_EQUAL && koala_warn_of_slip(koala, text, is_first, condition)) {
		return; /* and it is told */
	} else if (is_ip && out->test == RULES_EQUAL) {
		koala_warning(koala, text.data,
		              "expected an address, or a form of several, found %s: no "
		              "address is equal to it",
		              phrase_quote(text).text);
	}
}

/* The next value of a list; an empty one has no effect. Returns false if there is none. */
static bool next_value(struct slice *rest, struct slice *value)
{
	do {
		if (rest->len == 0)
			return false;
		*value = slice_trim(slice_cut(rest, ','));
	} while (value->len == 0);
	return true;
}

/* One or several, with commas between them. */
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
	values = add_values(koala, count, out);
	for (size_t i = 0; values && next_value(&text, &value); i++)
		read_value(koala, value, i == 0, out, &values[i]);
}

static void read_bound(struct koala *koala, struct slice text, struct rules_condition *out,
                       char sign, bool (*read)(struct slice text, struct rules_value *out))
{
	struct rules_value *value = add_values(koala, 1, out);
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

static void read_listed(struct koala *koala, struct slice text, struct rules_condition *out)
{
	struct koala_dictionary *dictionary = koala_dictionary(koala, text);
	struct rules_value *value = add_values(koala, 1, out);

	if (!dictionary) {
		koala_expected(koala, text, "the name of a dictionary of the section [dicts]");
		return;
	}
	dictionary->is_used = true;
	if (value)
		*value = dictionary->value;
}

/* The longer ones first. */
static const struct operator operators[] = {
    {SLICE("!="), read_list, true}, {SLICE("!@"), read_listed, true}, {SLICE("="), read_list},
    {SLICE(">"), read_above},       {SLICE("<"), read_below},         {SLICE("@"), read_listed},
};

static const struct operator* find_operator(struct slice text)
{
	for (size_t i = 0; i < sizeof operators / sizeof *operators; i++) {
		struct slice rest = text;

		if (slice_skip(&rest, operators[i].text))
			return &operators[i];
	}
	return NULL;
}

/* Cuts the {~} at the end off. */
static bool cut_combined(struct slice *text)
{
	struct slice end = SLICE("{~}");

	if (text->len < end.len || memcmp(text->data + text->len - end.len, end.data, end.len) != 0)
		return false;
	*text = slice_trim((struct slice){text->data, text->len - end.len});
	return true;
}

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

/* Returns false if it is none. */
static bool read_condition(struct koala *koala, struct slice text, struct rules_condition *out,
                           bool *combined)
{
	size_t length = 0;
	const struct operator* operator= NULL;
	struct slice values;

	while (length < text.len && !memchr("=!<>@", text.data[length], 5))
		length++;
	operator= find_operator((struct slice){text.data + length, text.len - length});
	if (!operator) {
		koala_expected(koala, text, "a condition such as act=ask, uid>5, uid!=7 or ip @ crawlers");
		return false;
	}
	out->attribute = read_name(koala, slice_trim((struct slice){text.data, length}));
	out->line = koala->line_number;
	out->column = koala_column(koala, text.data);
	length += operator->text.len;
	values = slice_trim((struct slice){text.data + length, text.len - length});
	*combined = cut_combined(&values);
	out->negated = operator->negated;
	if (out->attribute)
		operator->read(koala, values, out);
	return out->attribute != NULL;
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(const char *const *)a, *(const char *const *)b);
}

/*
 * The key has each attribute of the conditions once, in alphabetical order, except combined ones.
 */
static void make_key(struct koala *koala, struct rules_rule *rule, const bool *combined)
{
	const char **key = arena_array(&koala->config->arena, rule->condition_count, sizeof *key);
	size_t count = 0, n = 0;

	if (!key) {
		koala->no_memory = true;
		return;
	}
	for (size_t i = 0; i < rule->condition_count; i++) {
		bool left_out = false;

		for (size_t j = 0; j < rule->condition_count; j++)
			left_out |= combined[j] &&
			            strcmp(rule->conditions[i].attribute, rule->conditions[j].attribute) == 0;
		if (!left_out)
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

/* Whether a condition has a range, in which addresses are numbers. */
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

/* Puts conditions on one attribute together, as a mapping of attributes has them. */
static void group(const struct rules_condition *from, size_t count, struct rules_condition *out)
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
	bool combined[WEIR_ATTRIBUTES_MAX];
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
		n += read_condition(koala, part, &conditions[n], &combined[n]);
	}
	if (!has_any)
		koala_warning(koala, begin,
		              "expected conditions, found none: the rule applies to every request");
	copy = arena_array(&koala->config->arena, n, sizeof *copy);
	if (!copy) {
		koala->no_memory = true;
		return;
	}
	rule->conditions = conditions;
	rule->condition_count = n;
	rule->ip_numbers = has_ranges(rule) ? RULES_YES : RULES_UNSET;
	make_key(koala, rule, combined);
	group(conditions, n, copy);
	rule->conditions = copy;
}
