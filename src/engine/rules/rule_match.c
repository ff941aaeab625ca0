/* rule_match.c: looks up the rules that may apply to a request, and checks each in full. */
#include "engine/rules/rule_match.h"

#include "base/number.h"
#include "base/text/path.h"
#include "engine/rules/rule_index.h"

struct match *match_new(const struct weir_config *config, const struct hash_key *key,
                        struct arena *arena)
{
	return index_new(config, key, arena);
}

int match_attribute(const struct match *match, struct slice name)
{
	const struct index_slot *slot = index_name(match, name);

	return slot->hash != 0 ? (int)slot->first : -1;
}

int match_key_attribute(const struct match *match, size_t rule, struct slice name)
{
	return match->rules[rule].path_variants && slice_equal(name, SLICE("path"))
	           ? match->folded
	           : match_attribute(match, name);
}

struct match_value *match_no_values(const struct match *match, struct arena *arena)
{
	return arena_array(arena, match->attribute_count, sizeof(struct match_value));
}

struct match_value *match_values(const struct match *match, const struct weir_attribute *attributes,
                                 size_t n, struct arena *arena)
{
	struct match_value *values = match_no_values(match, arena);

	if (!values)
		return NULL;
	for (size_t i = 0; i < n; i++) {
		int number = match_attribute(match, slice_of(attributes[i].name));

		if (number >= 0 && !values[number].text.data)
			values[number].text = (struct slice){attributes[i].value, attributes[i].value_len};
	}
	return values;
}

/* Whether it is one in any form. */
static bool is_address(struct match_value *value)
{
	if (value->form == IP_UNTRIED)
		value->form = ip_parse(value->text, &value->ip)          ? IP_VALID
		              : ip_parse_number(value->text, &value->ip) ? IP_NUMBER
		                                                         : IP_INVALID;
	return value->form != IP_INVALID;
}

bool match_is_ip(struct match_value *value)
{
	return is_address(value) && value->form == IP_VALID;
}

/* Whether it is a whole number in that range; one past int64_t counts as the end. */
static bool number_holds(const struct rules_numbers *numbers, struct slice text)
{
	bool minus = slice_skip(&text, SLICE("-"));
	uint64_t most = (uint64_t)INT64_MAX + minus, value = 0;
	int64_t number;

	if (text.len == 0)
		return false;
	for (size_t i = 0; i < text.len; i++) {
		if (text.data[i] < '0' || text.data[i] > '9')
			return false;
		value =
		    value > most / 10 ? most : u64_min(10 * value + (uint64_t)(text.data[i] - '0'), most);
	}
	number = minus ? (int64_t)-value : (int64_t)value;
	return number >= numbers->first && number <= numbers->last;
}

/* With `ip_numbers`: numbers with a sign before them, and of addresses. */
static bool any_number_holds(const struct rules_numbers *numbers, struct match_value *value)
{
	struct slice text = value->text;
	int64_t number;

	if (slice_skip(&text, SLICE("+")) || !memchr(text.data, '.', text.len))
		return number_holds(numbers, text);
	if (!is_address(value) || !ip_is_v4(&value->ip))
		return false;
	number = ip_number(&value->ip);
	return number >= numbers->first && number <= numbers->last;
}

/* The same of a range. An address alone is a text to Koala, so a number is not equal to it. */
static bool any_address_holds(const struct ip_range *range, struct match_value *value)
{
	bool is_one = memcmp(&range->first, &range->last, sizeof range->first) == 0;

	return (is_one ? match_is_ip(value) : is_address(value)) && ip_in_range(&value->ip, range);
}

static bool is_listed(const struct dictionary *dictionary, struct match_value *value)
{
	bool is_ip = dictionary_has_addresses(dictionary) && match_is_ip(value);

	return dictionary_has(dictionary, value->text, is_ip ? &value->ip : NULL);
}

static bool value_holds(const struct rules_value *test, struct match_value *value, bool ip_numbers)
{
	bool present = value->text.data;

	switch (test->test) {
	case RULES_EQUAL:
		return present && slice_equal(value->text, test->text);
	case RULES_PREFIX:
		return present && value->text.len >= test->text.len &&
		       memcmp(value->text.data, test->text.data, test->text.len) == 0;
	case RULES_IP_RANGE:
		return present &&
		       (ip_numbers ? any_address_holds(&test->range, value)
		                   : match_is_ip(value) && ip_in_range(&value->ip, &test->range));
	case RULES_IP_PATTERN:
		return present && (ip_numbers ? is_address(value) : match_is_ip(value)) &&
		       ip_matches_pattern(&value->ip, &test->pattern);
	case RULES_LISTED:
		return present && is_listed(test->dictionary, value);
	case RULES_NUMBERS:
		return present && (ip_numbers ? any_number_holds(&test->numbers, value)
		                              : number_holds(&test->numbers, value->text));
	case RULES_ANY:
		return value->text.len > 0;
	case RULES_NONE:
		return value->text.len == 0;
	}
	return false;
}

#define NOWHERE UINT32_MAX

/* As condition.equal: the slot of a request's whole value, or NOWHERE. */
static inline uint32_t equal_of(const struct match *match, size_t attribute,
                                struct match_value *value)
{
	const struct index_slot *slot;

	if (value->equal != 0)
		return value->equal;
	value->equal = NOWHERE;
	if (value->text.data) {
		slot =
		    index_find(&match->values,
		               index_hash(match, attribute, (struct lookup){LOOKUP_EQUAL, 0}, value->text));
		if (slot->text.data && slice_equal(slot->text, value->text))
			value->equal = (uint32_t)(slot - match->values.items) + 1;
	}
	return value->equal;
}

static bool condition_holds(const struct rules_condition *condition, struct match_value *value,
                            bool ip_numbers)
{
	bool holds = false;

	for (size_t i = 0; !holds && i < condition->value_count; i++)
		holds = value_holds(&condition->values[i], value, ip_numbers);
	return condition->negated ? !holds && value->text.len > 0 : holds;
}

static bool rule_holds(const struct match *match, const struct indexed_rule *rule,
                       struct match_value *values)
{
	for (size_t i = 0; i < rule->condition_count; i++) {
		const struct indexed_condition *condition = &rule->conditions[i];
		struct match_value *value = &values[condition->attribute];

		if (condition->equal != 0
		        ? equal_of(match, (size_t)condition->attribute, value) != condition->equal
		        : !condition_holds(condition->rule, value, rule->ip_numbers))
			return false;
	}
	return true;
}

/* The bytes of `value` that this lookup looks up; false when the value has none such. */
static bool looked_up_bytes(struct lookup lookup, struct match_value *value, struct ip *network,
                            struct slice *bytes)
{
	*bytes = value->text;
	switch (lookup.kind) {
	case LOOKUP_PREFIX:
		bytes->len = lookup.length;
		return value->text.len >= lookup.length;
	case LOOKUP_IP:
		if (!is_address(value))
			return false;
		*network = ip_network(&value->ip, lookup.length);
		*bytes = (struct slice){(const char *)network->bytes, sizeof network->bytes};
		return true;
	default:
		return true;
	}
}

/* The rules that apply, as they are found. */
struct rule_search {
	const struct match *match;
	struct match_value *values;
	struct arena *arena;
	struct match_found *found;
	size_t capacity;
	bool in_order;
};

#define FOUND_FIRST 16

/* Returns false if there is no memory. */
static bool add_found(struct rule_search *search, uint32_t rule)
{
	struct match_found *found = search->found;

	if (found->count == search->capacity) {
		uint32_t *grown = arena_array(search->arena, 2 * search->capacity, sizeof *grown);

		if (!grown)
			return false;
		memcpy(grown, found->rules, found->count * sizeof *grown);
		found->rules = grown;
		search->capacity *= 2;
	}
	search->in_order &= found->count == 0 || found->rules[found->count - 1] < rule;
	found->rules[found->count++] = rule;
	return true;
}

/* Adds those of the rules that apply. */
static bool add_matching(struct rule_search *search, const uint32_t *rules, size_t n)
{
	const struct match *match = search->match;

	for (size_t i = 0; i < n; i++)
		if (rule_holds(match, &match->rules[rules[i]], search->values) &&
		    !add_found(search, rules[i]))
			return false;
	return true;
}

static bool verify_filed_rules(struct rule_search *search, size_t number)
{
	const struct match *match = search->match;
	const struct indexed_attribute *attribute = &match->attributes[number];
	struct match_value *value = &search->values[number];

	for (size_t i = 0; i < attribute->lookup_count; i++) {
		struct lookup lookup = attribute->lookups[i];
		const struct index_slot *slot;
		struct slice bytes;
		struct ip network;

		if (!looked_up_bytes(lookup, value, &network, &bytes))
			continue;
		slot = index_find(&match->values, index_hash(match, number, lookup, bytes));
		if (slot->hash == 0)
			continue;
		if (!add_matching(search, match->entries + slot->first, slot->count))
			return false;
	}
	return true;
}

/* A few are sorted by moving them; in case of many the bits of all rules are set and read. */
#define SORTED_MAX 64

static void sort_few(struct match_found *found)
{
	size_t kept = 0;

	for (size_t i = 0; i < found->count; i++) {
		uint32_t rule = found->rules[i];
		size_t at = kept;

		while (at > 0 && found->rules[at - 1] > rule)
			at--;
		if (at > 0 && found->rules[at - 1] == rule)
			continue;
		memmove(&found->rules[at + 1], &found->rules[at], (kept - at) * sizeof rule);
		found->rules[at] = rule;
		kept++;
	}
	found->count = kept;
}

/* Sorts the rules that were found by their numbers, and drops duplicates: for long lists. */
static bool sort_without_duplicates(const struct match *match, struct match_found *found,
                                    struct arena *arena)
{
	size_t words = match->rule_count / 64 + 1, kept = 0;
	uint64_t *bits = arena_array(arena, words, sizeof *bits);

	if (!bits)
		return false;
	for (size_t i = 0; i < found->count; i++)
		bits[found->rules[i] / 64] |= UINT64_C(1) << (found->rules[i] % 64);
	for (size_t i = 0; i < words; i++)
		for (uint64_t rest = bits[i]; rest != 0; rest &= rest - 1)
			found->rules[kept++] = (uint32_t)(64 * i + (size_t)__builtin_ctzll(rest));
	found->count = kept;
	return true;
}

bool match_rules(const struct match *match, struct match_value *values, struct arena *arena,
                 struct match_found *found)
{
	struct rule_search search = {match, values, arena, found, FOUND_FIRST, true};

	*found = (struct match_found){arena_array(arena, FOUND_FIRST, sizeof *found->rules), 0};
	if (!found->rules)
		return false;
	if (match->folded >= 0 && values[match->path].text.data &&
	    path_fold(arena, values[match->path].text, &values[match->folded].text) != 0)
		return false;
	if (!add_matching(&search, match->always, match->always_count))
		return false;
	for (size_t i = 0; i < match->attribute_count; i++)
		if (values[i].text.data && !verify_filed_rules(&search, i))
			return false;
	if (search.in_order)
		return true;
	if (found->count > SORTED_MAX)
		return sort_without_duplicates(match, found, arena);
	sort_few(found);
	return true;
}
