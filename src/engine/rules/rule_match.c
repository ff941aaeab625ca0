/*
 * rule_match.c: finds the rules that apply to a request: looks up the rules that may apply in the
 * index (rule_index.c), by the values of the request's attributes, and checks each in full.
 *
 * An attribute's number is its index in match->attributes and in a request's values.
 */
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

	return slot->hash != 0 ? (int)slot->attribute : -1;
}

/* Keys of rules that fold paths are made of the folded path. */
int match_key_attribute(const struct match *match, size_t rule, struct slice name)
{
	return match->rules[rule].path_variants && slice_equal(name, SLICE("path"))
	           ? match->folded_path_attribute
	           : match_attribute(match, name);
}

struct match_value *match_alloc_values(const struct match *match, struct arena *arena)
{
	return arena_array(arena, match->attribute_count, sizeof(struct match_value));
}

struct match_value *match_values(const struct match *match, const struct weir_attribute *attributes,
                                 size_t n, struct arena *arena)
{
	struct match_value *values = match_alloc_values(match, arena);

	if (!values)
		return NULL;
	for (size_t i = 0; i < n; i++) {
		int number = match_attribute(match, slice_of(attributes[i].name));

		if (number >= 0 && !values[number].text.data)
			values[number].text = (struct slice){attributes[i].value, attributes[i].value_len};
	}
	return values;
}

/* Whether the value is an IP address, even one written as a plain number. Parses it only once. */
static bool is_address(struct match_value *value)
{
	if (value->address_form == IP_UNTRIED)
		value->address_form = ip_parse(value->text, &value->ip)          ? IP_VALID
		                      : ip_parse_number(value->text, &value->ip) ? IP_NUMBER
		                                                                 : IP_INVALID;
	return value->address_form != IP_INVALID;
}

bool match_is_ip(struct match_value *value)
{
	return is_address(value) && value->address_form == IP_VALID;
}

/* Whether the text is a whole number in the range. A number past int64_t counts as its end. */
static bool number_in_range(const struct rules_numbers *range, struct slice text)
{
	bool minus = slice_skip(&text, SLICE("-"));
	uint64_t largest = (uint64_t)INT64_MAX + minus, digits = 0;
	int64_t number;

	if (text.len == 0)
		return false;
	for (size_t i = 0; i < text.len; i++) {
		if (text.data[i] < '0' || text.data[i] > '9')
			return false;
		digits = digits > largest / 10
		             ? largest
		             : u64_min(10 * digits + (uint64_t)(text.data[i] - '0'), largest);
	}
	number = minus ? (int64_t)-digits : (int64_t)digits;
	return number >= range->first && number <= range->last;
}

/* As number_in_range, for rules that also accept a plus sign, and IPv4 addresses as numbers. */
static bool number_or_ipv4_in_range(const struct rules_numbers *range, struct match_value *value)
{
	struct slice text = value->text;
	int64_t number;

	if (slice_skip(&text, SLICE("+")) || !memchr(text.data, '.', text.len))
		return number_in_range(range, text);
	if (!is_address(value) || !ip_is_v4(&value->ip))
		return false;
	number = ip_number(&value->ip);
	return number >= range->first && number <= range->last;
}

/*
 * Whether the value is an address in the range, even one written as a number. A range of one
 * address is a text to Koala (whose rules Weir reads), so no number is equal to it.
 */
static bool address_or_number_in_range(const struct ip_range *range, struct match_value *value)
{
	bool is_one_address = memcmp(&range->first, &range->last, sizeof range->first) == 0;

	return (is_one_address ? match_is_ip(value) : is_address(value)) &&
	       ip_in_range(&value->ip, range);
}

static bool is_listed(const struct dictionary *dictionary, struct match_value *value)
{
	bool is_ip = dictionary_has_addresses(dictionary) && match_is_ip(value);

	return dictionary_has(dictionary, value->text, is_ip ? &value->ip : NULL);
}

/* Whether the value passes one test of a condition. `ip_numbers`: numbers count as addresses. */
static bool value_passes(const struct rules_value *test, struct match_value *value, bool ip_numbers)
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
		       (ip_numbers ? address_or_number_in_range(&test->range, value)
		                   : match_is_ip(value) && ip_in_range(&value->ip, &test->range));
	case RULES_IP_PATTERN:
		return present && (ip_numbers ? is_address(value) : match_is_ip(value)) &&
		       ip_matches_pattern(&value->ip, &test->pattern);
	case RULES_LISTED:
		return present && is_listed(test->dictionary, value);
	case RULES_NUMBERS:
		return present && (ip_numbers ? number_or_ipv4_in_range(&test->numbers, value)
		                              : number_in_range(&test->numbers, value->text));
	case RULES_ANY:
		return value->text.len > 0;
	case RULES_NONE:
		return value->text.len == 0;
	}
	return false;
}

#define NO_SLOT UINT32_MAX

/*
 * Finds the request's value among those that conditions compare with, each of which has a slot in
 * match->values: two values are equal if they have the same slot. Returns 1 + the slot, or NO_SLOT
 * if no condition has this value. Looks it up only once.
 */
static inline uint32_t whole_value_slot(const struct match *match, size_t attribute,
                                        struct match_value *value)
{
	const struct index_slot *slot;

	if (value->whole_value_slot != 0)
		return value->whole_value_slot;
	value->whole_value_slot = NO_SLOT;
	if (value->text.data) {
		slot =
		    index_find(&match->values,
		               index_hash(match, attribute, (struct lookup){LOOKUP_EQUAL, 0}, value->text));
		if (slot->whole_value.data && slice_equal(slot->whole_value, value->text))
			value->whole_value_slot = (uint32_t)(slot - match->values.items) + 1;
	}
	return value->whole_value_slot;
}

/* A negated condition holds if the attribute is present and passes none of the tests. */
static bool condition_holds(const struct rules_condition *condition, struct match_value *value,
                            bool ip_numbers)
{
	bool holds = false;

	for (size_t i = 0; !holds && i < condition->value_count; i++)
		holds = value_passes(&condition->values[i], value, ip_numbers);
	return condition->negated ? !holds && value->text.len > 0 : holds;
}

static bool rule_holds(const struct match *match, const struct indexed_rule *rule,
                       struct match_value *values)
{
	for (size_t i = 0; i < rule->condition_count; i++) {
		const struct indexed_condition *condition = &rule->conditions[i];
		struct match_value *value = &values[condition->attribute];

		bool holds = condition->whole_value_slot != 0
		                 ? condition->whole_value_slot ==
		                       whole_value_slot(match, (size_t)condition->attribute, value)
		                 : condition_holds(condition->definition, value, rule->ip_numbers);

		if (!holds)
			return false;
	}
	return true;
}

/*
 * Sets the bytes of the value that the lookup hashes: all, a prefix, or those of the network of an
 * address. Returns false if the value is too short or is no address.
 */
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

/* A search for the rules that apply to one request. */
struct rule_search {
	const struct match *match;
	struct match_value *values;
	struct arena *arena;
	struct match_found *found;
	size_t capacity;
	bool found_in_order; /* each rule found so far comes after the one before it */
};

#define FOUND_FIRST 16

/* Appends a rule that applies. Returns false if there is no memory. */
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
	search->found_in_order &= found->count == 0 || found->rules[found->count - 1] < rule;
	found->rules[found->count++] = rule;
	return true;
}

/* Checks each of the rules, and adds those that apply. Returns false if there is no memory. */
static bool add_matching(struct rule_search *search, const uint32_t *rules, size_t n)
{
	const struct match *match = search->match;

	for (size_t i = 0; i < n; i++)
		if (rule_holds(match, &match->rules[rules[i]], search->values) &&
		    !add_found(search, rules[i]))
			return false;
	return true;
}

/*
 * Adds the rules that apply among those that are filed under the request's value of one attribute.
 * Returns false if there is no memory.
 */
static bool add_filed_rules(struct rule_search *search, size_t attribute_number)
{
	const struct match *match = search->match;
	const struct indexed_attribute *attribute = &match->attributes[attribute_number];
	struct match_value *value = &search->values[attribute_number];

	for (size_t i = 0; i < attribute->lookup_count; i++) {
		struct lookup lookup = attribute->lookups[i];
		const struct index_slot *slot;
		struct slice bytes;
		struct ip network;

		if (!looked_up_bytes(lookup, value, &network, &bytes))
			continue;
		slot = index_find(&match->values, index_hash(match, attribute_number, lookup, bytes));
		if (slot->hash == 0)
			continue;
		if (!add_matching(search, match->entries + slot->first_entry, slot->entry_count))
			return false;
	}
	return true;
}

/* Up to so many rules are sorted by insertion, more by a bitmap of all rules. */
#define INSERTION_SORT_MAX 64

/* Sorts the rules that were found by their numbers, and drops duplicates: for short lists. */
static void sort_by_insertion(struct match_found *found)
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

/* As sort_by_insertion, for long lists. Returns false if there is no memory. */
static bool sort_by_bitmap(const struct match *match, struct match_found *found,
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

/* Sets the folded form of the request's path, if a rule needs it. Returns false without memory. */
static bool fold_path_value(const struct match *match, struct match_value *values,
                            struct arena *arena)
{
	struct slice path;

	if (match->folded_path_attribute < 0)
		return true;
	path = values[match->path_attribute].text;
	return !path.data || path_fold(arena, path, &values[match->folded_path_attribute].text) == 0;
}

bool match_rules(const struct match *match, struct match_value *values, struct arena *arena,
                 struct match_found *found)
{
	struct rule_search search = {match, values, arena, found, FOUND_FIRST, .found_in_order = true};

	*found = (struct match_found){arena_array(arena, FOUND_FIRST, sizeof *found->rules), 0};
	if (!found->rules)
		return false;
	if (!fold_path_value(match, values, arena))
		return false;
	if (!add_matching(&search, match->always_checked, match->always_checked_count))
		return false;
	for (size_t i = 0; i < match->attribute_count; i++)
		if (values[i].text.data && !add_filed_rules(&search, i))
			return false;
	if (search.found_in_order)
		return true;
	if (found->count > INSERTION_SORT_MAX)
		return sort_by_bitmap(match, found, arena);
	sort_by_insertion(found);
	return true;
}
