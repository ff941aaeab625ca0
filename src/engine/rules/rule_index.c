/*
 * rule_index.c: builds the index by which a request finds the rules that may apply to it.
 *
 * A rule is *filed* under one of its conditions: the slots of that condition's values list the
 * rule. A request looks up its own values and so finds the rule. Each rule is filed under the
 * condition whose values the fewest rules share, so that a request finds few rules that do not
 * apply.
 */
#include "engine/rules/rule_index.h"

#include "base/number.h"
#include "base/text/path.h"

/* Makes an empty hash table for `capacity` entries, at most half full. */
static bool slot_table_open(struct slot_table *slots, size_t capacity, struct arena *arena)
{
	size_t n = 16;

	while (n < 2 * capacity)
		n *= 2;
	slots->mask = n - 1;
	slots->items = arena_array(arena, n, sizeof *slots->items);
	return slots->items != NULL;
}

/* Returns the number of the attribute with this name, which is added if it is new. */
static int attribute_add(struct match *match, const char *text)
{
	struct slice name = slice_of(text);
	struct index_slot *slot = index_name(match, name);

	if (slot->hash == 0) {
		slot->hash = index_name_hash(match, name);
		slot->attribute = (uint32_t)match->attribute_count++;
		match->attributes[slot->attribute].name = name;
	}
	return (int)slot->attribute;
}

/* Whether the rule compares the attribute in its folded form: a path, without its variants. */
static bool is_folded(const struct indexed_rule *rule, const char *attribute)
{
	return rule->path_variants && strcmp(attribute, "path") == 0;
}

/*
 * As attribute_add, for an attribute that a rule's condition or key names. A folded path is an
 * attribute of its own.
 */
static int rule_attribute_add(struct match *match, const struct indexed_rule *rule,
                              const char *name)
{
	int number = attribute_add(match, name);

	if (!is_folded(rule, name))
		return number;
	if (match->folded_path_attribute < 0) {
		match->path_attribute = number;
		match->folded_path_attribute = (int)match->attribute_count++;
	}
	return match->folded_path_attribute;
}

/*
 * Folds a value of a condition on paths, so that it can be compared with folded paths. Returns how
 * many values that makes, or 0 if there is no memory. path_fold drops a final slash, which a prefix
 * needs: /api/ matches /api/x and its own variant /api, but not /apix. So it becomes two values,
 * the prefix /api/ and the path /api. The root has no such variant.
 */
static size_t fold_value(const struct rules_value *value, struct rules_value out[2],
                         struct arena *arena)
{
	struct slice folded;
	bool is_root;
	char *copy;

	out[0] = *value;
	if (value->test != RULES_EQUAL && value->test != RULES_PREFIX)
		return 1;
	if (path_fold(arena, value->text, &folded) != 0)
		return 0;
	out[0].text = folded;
	is_root = folded.len <= 1;
	if (value->test == RULES_EQUAL || is_root || value->text.data[value->text.len - 1] != '/')
		return 1;
	copy = arena_alloc(arena, folded.len + 1);
	if (!copy)
		return 0;
	memcpy(copy, folded.data, folded.len);
	copy[folded.len] = '/';
	out[0].text = (struct slice){copy, folded.len + 1};
	out[1] = (struct rules_value){.test = RULES_EQUAL, .text = folded};
	return 2;
}

/* Copies a condition on paths, with its values folded. Returns NULL if there is no memory. */
static const struct rules_condition *fold_condition(const struct rules_condition *from,
                                                    struct arena *arena)
{
	struct rules_condition *condition = arena_alloc(arena, sizeof *condition);
	struct rules_value *values = arena_array(arena, 2 * from->value_count, sizeof *values);

	if (!condition || !values)
		return NULL;
	*condition = (struct rules_condition){
	    .attribute = from->attribute, .values = values, .negated = from->negated};
	for (size_t i = 0; i < from->value_count; i++) {
		size_t n = fold_value(&from->values[i], &values[condition->value_count], arena);

		if (n == 0)
			return NULL;
		condition->value_count += n;
	}
	return condition;
}

/*
 * Sets the lookup by which a request finds a value, and the bytes under which the value is filed.
 * Returns false if no lookup finds it: a value such as a range of numbers is not one hash.
 */
static bool lookup_of_value(const struct rules_value *value, struct lookup *lookup,
                            struct slice *bytes)
{
	int bits;

	*bytes = value->text;
	switch (value->test) {
	case RULES_EQUAL:
		*lookup = (struct lookup){LOOKUP_EQUAL, 0};
		return true;
	case RULES_PREFIX:
		*lookup = (struct lookup){LOOKUP_PREFIX, (unsigned)value->text.len};
		return true;
	case RULES_IP_RANGE:
		bits = ip_range_prefix(&value->range);
		*lookup = (struct lookup){LOOKUP_IP, (unsigned)bits};
		*bytes = (struct slice){(const char *)value->range.first.bytes, 16};
		return bits >= 0; /* the range is one network */
	case RULES_IP_PATTERN:
	case RULES_LISTED:
	case RULES_NUMBERS:
	case RULES_ANY:
	case RULES_NONE:
		break;
	}
	return false;
}

/* Whether a rule can be filed under a condition: a lookup finds each of its values. */
static bool can_be_filed(const struct rules_condition *condition)
{
	struct lookup lookup;
	struct slice bytes;

	if (condition->negated)
		return false;
	for (size_t i = 0; i < condition->value_count; i++)
		if (!lookup_of_value(&condition->values[i], &lookup, &bytes))
			return false;
	return condition->value_count > 0;
}

/* Returns the slot of the condition's value `i`, and marks it as used. */
static struct index_slot *value_slot(struct match *match, const struct indexed_condition *condition,
                                     size_t i, struct lookup *lookup)
{
	struct slice bytes = {0};
	struct index_slot *slot;
	uint64_t hash;

	lookup_of_value(&condition->definition->values[i], lookup, &bytes);
	hash = index_hash(match, (size_t)condition->attribute, *lookup, bytes);
	slot = index_find(&match->values, hash);
	slot->hash = hash;
	return slot;
}

/* Lets requests look up the attribute in this way. Returns false if there is no memory. */
static bool add_lookup(struct indexed_attribute *attribute, struct lookup lookup,
                       struct arena *arena)
{
	struct lookup *grown;

	for (size_t i = 0; i < attribute->lookup_count; i++)
		if (attribute->lookups[i].kind == lookup.kind &&
		    attribute->lookups[i].length == lookup.length)
			return true;
	if (attribute->lookup_count == attribute->lookup_capacity) {
		attribute->lookup_capacity =
		    attribute->lookup_capacity ? 2 * attribute->lookup_capacity : 4;
		grown = arena_array(arena, attribute->lookup_capacity, sizeof *grown);
		if (!grown)
			return false;
		for (size_t i = 0; i < attribute->lookup_count; i++)
			grown[i] = attribute->lookups[i];
		attribute->lookups = grown;
	}
	attribute->lookups[attribute->lookup_count++] = lookup;
	return true;
}

/*
 * Sets the slot of a condition that is equality with one value, so that a request compares slots in
 * place of texts. If another value has the slot, because both have one hash, it compares texts
 * still. Returns false if there is no memory.
 */
static bool set_equal_slot(const struct match *match, struct indexed_condition *condition,
                           struct index_slot *slot, struct arena *arena)
{
	const struct rules_value *value = condition->definition->values;

	if (condition->definition->value_count != 1 || value->test != RULES_EQUAL)
		return true;
	if (!slot->whole_value.data)
		slot->whole_value = (struct slice){arena_copy(arena, value->text), value->text.len};
	if (!slot->whole_value.data)
		return false;
	if (slice_equal(slot->whole_value, value->text)) /* 0 stands for no slot */
		condition->whole_value_slot = (uint32_t)(slot - match->values.items) + 1;
	return true;
}

/*
 * Opens the table of values. First fills a temporary table of `capacity`, to count the different
 * values: the final table then has few cache lines.
 */
static bool open_value_table(struct match *match, size_t capacity, struct arena *arena)
{
	struct arena scratch = {0};
	size_t values = 0;

	if (!slot_table_open(&match->values, capacity, &scratch))
		return false;
	for (size_t i = 0; i < match->rule_count; i++)
		for (size_t j = 0; j < match->rules[i].condition_count; j++) {
			const struct indexed_condition *condition = &match->rules[i].conditions[j];
			struct lookup lookup;

			if (!can_be_filed(condition->definition))
				continue;
			for (size_t k = 0; k < condition->definition->value_count; k++)
				value_slot(match, condition, k, &lookup);
		}
	for (size_t i = 0; i <= match->values.mask; i++)
		values += match->values.items[i].hash != 0;
	arena_free(&scratch);
	return slot_table_open(&match->values, values, arena);
}

/*
 * Fills the slots: counts in each the rules that could be filed under its value, and sets the slots
 * of equalities. Returns false if there is no memory.
 */
static bool fill_value_slots(struct match *match, struct arena *arena)
{
	for (size_t i = 0; i < match->rule_count; i++) {
		const struct indexed_rule *rule = &match->rules[i];

		for (size_t j = 0; j < rule->condition_count; j++) {
			struct indexed_condition *condition = &rule->conditions[j];

			if (!can_be_filed(condition->definition))
				continue;
			for (size_t k = 0; k < condition->definition->value_count; k++) {
				struct lookup lookup;
				struct index_slot *slot = value_slot(match, condition, k, &lookup);

				slot->entry_count++;
				if (!set_equal_slot(match, condition, slot, arena))
					return false;
			}
		}
	}
	return true;
}

/* A prefix or a network matches more requests than a whole value: its rules count this often. */
#define BROAD_WEIGHT 8

/*
 * Returns the most rules that share one value of the condition: so many rules are checked in full
 * for a request that has this value.
 */
static uint64_t most_rules_of_one_value(struct match *match,
                                        const struct indexed_condition *condition)
{
	uint64_t rules = 0;

	for (size_t i = 0; i < condition->definition->value_count; i++) {
		struct lookup lookup;
		uint64_t sharing = value_slot(match, condition, i, &lookup)->entry_count;

		rules = u64_max(rules, lookup.kind == LOOKUP_EQUAL ? sharing : BROAD_WEIGHT * sharing);
	}
	return rules;
}

/* Files each rule under the condition whose values the fewest rules share, or under none. */
static bool choose_filed_conditions(struct match *match, struct arena *arena)
{
	for (size_t i = 0; i < match->rule_count; i++) {
		struct indexed_rule *rule = &match->rules[i];
		uint64_t least = UINT64_MAX;

		rule->filed_condition = NOT_FILED;
		for (size_t j = 0; j < rule->condition_count; j++) {
			uint64_t rules = can_be_filed(rule->conditions[j].definition)
			                     ? most_rules_of_one_value(match, &rule->conditions[j])
			                     : UINT64_MAX;

			if (rules < least) {
				least = rules;
				rule->filed_condition = (uint32_t)j;
			}
		}
		match->always_checked_count += rule->filed_condition == NOT_FILED;
	}
	match->always_checked =
	    arena_array(arena, match->always_checked_count, sizeof *match->always_checked);
	return match->always_checked != NULL;
}

/* Calls `file` for each rule and each value that it is filed under, until it returns false. */
static bool for_each_filed_value(struct match *match, struct arena *arena,
                                 bool (*file)(struct match *match, size_t rule,
                                              struct index_slot *slot, struct lookup lookup,
                                              struct arena *arena))
{
	for (size_t i = 0; i < match->rule_count; i++) {
		const struct indexed_rule *rule = &match->rules[i];
		const struct indexed_condition *condition;

		if (rule->filed_condition == NOT_FILED)
			continue;
		condition = &rule->conditions[rule->filed_condition];
		for (size_t j = 0; j < condition->definition->value_count; j++) {
			struct lookup lookup;
			struct index_slot *slot = value_slot(match, condition, j, &lookup);

			if (!file(match, i, slot, lookup, arena))
				return false;
		}
	}
	return true;
}

/* For for_each_filed_value: counts the slot's entries, and adds the lookup that finds it. */
static bool count_entry(struct match *match, size_t rule, struct index_slot *slot,
                        struct lookup lookup, struct arena *arena)
{
	const struct indexed_condition *condition =
	    &match->rules[rule].conditions[match->rules[rule].filed_condition];

	slot->entry_count++;
	return add_lookup(&match->attributes[condition->attribute], lookup, arena);
}

/* For for_each_filed_value: writes the rule into the slot's entries. */
static bool add_entry(struct match *match, size_t rule, struct index_slot *slot,
                      struct lookup lookup, struct arena *arena)
{
	(void)lookup;
	(void)arena;
	match->entries[slot->first_entry + slot->entry_count++] = (uint32_t)rule;
	return true;
}

static void list_always_checked(struct match *match)
{
	size_t n = 0;

	for (size_t i = 0; i < match->rule_count; i++)
		if (match->rules[i].filed_condition == NOT_FILED)
			match->always_checked[n++] = (uint32_t)i;
}

/*
 * Writes the entries: counts them for each slot, gives each slot its part of the array, then fills
 * the parts, which counts them again. Before, a slot's count was of the rules that could be filed
 * there. Returns false if there is no memory.
 */
static bool write_entries(struct match *match, struct arena *arena)
{
	uint32_t entries = 0;

	for (size_t i = 0; i <= match->values.mask; i++)
		match->values.items[i].entry_count = 0;
	if (!for_each_filed_value(match, arena, count_entry))
		return false;
	for (size_t i = 0; i <= match->values.mask; i++) {
		struct index_slot *slot = &match->values.items[i];

		slot->first_entry = entries;
		entries += slot->entry_count;
		slot->entry_count = 0;
	}
	match->entries = arena_array(arena, entries, sizeof *match->entries);
	return match->entries && for_each_filed_value(match, arena, add_entry);
}

/* Files each rule, or lists it among those that are always checked. False if memory is short. */
static bool file_all_rules(struct match *match, size_t value_capacity, struct arena *arena)
{
	if (!open_value_table(match, value_capacity, arena) || !fill_value_slots(match, arena) ||
	    !choose_filed_conditions(match, arena))
		return false;
	list_always_checked(match);
	return write_entries(match, arena);
}

/* Whether the rule treats paths that differ only in spelling (/a//b and /a/b) as one. */
static bool wants_variants(const struct weir_config *config, const struct rules_rule *rule)
{
	return (rule->path_variants != RULES_UNSET ? rule->path_variants : config->path_variants) ==
	       RULES_YES;
}

/* Allocates the arrays of the index. Sets the most values that the rules can be filed under. */
static bool allocate_index(struct match *match, const struct weir_config *config, size_t *values,
                           struct arena *arena)
{
	size_t names = 0;

	*values = 0;
	for (size_t i = 0; i < config->rule_count; i++) {
		const struct rules_rule *rule = &config->rules[i];
		size_t folded_values = wants_variants(config, rule) ? 2 : 1; /* of one value, at most */

		names += rule->condition_count + rule->key_count;
		for (size_t j = 0; j < rule->condition_count; j++)
			*values += folded_values * rule->conditions[j].value_count;
	}
	match->attributes = arena_array(arena, names + 1, sizeof *match->attributes);
	match->rules = arena_array(arena, config->rule_count, sizeof *match->rules);
	match->rule_count = config->rule_count;
	return slot_table_open(&match->names, names, arena) && match->attributes && match->rules;
}

/*
 * Fills in `rule` from the configuration's rule `from`: its conditions, with folded paths, and the
 * numbers of their attributes. Returns false if there is no memory.
 */
static bool compile_rule(struct match *match, const struct rules_rule *from,
                         struct indexed_rule *rule, struct arena *arena)
{
	rule->condition_count = (uint32_t)from->condition_count;
	rule->conditions = arena_array(arena, from->condition_count, sizeof *rule->conditions);
	if (!rule->conditions)
		return false;
	for (size_t i = 0; i < from->condition_count; i++) {
		const struct rules_condition *condition = &from->conditions[i];
		int attribute = rule_attribute_add(match, rule, condition->attribute);

		if (is_folded(rule, condition->attribute))
			condition = fold_condition(condition, arena);
		if (!condition)
			return false;
		rule->conditions[i] =
		    (struct indexed_condition){.attribute = attribute, .definition = condition};
	}
	for (size_t i = 0; i < from->key_count; i++)
		rule_attribute_add(match, rule, from->key[i]); /* the key needs its value, too */
	return true;
}

struct match *index_new(const struct weir_config *config, const struct hash_key *key,
                        struct arena *arena)
{
	struct match *match = arena_alloc(arena, sizeof *match);
	size_t value_capacity;

	if (!match || !allocate_index(match, config, &value_capacity, arena))
		return NULL;
	keyhash_init(&match->hash, key);
	match->path_attribute = match->folded_path_attribute = -1;
	for (size_t i = 0; i < config->rule_count; i++) {
		match->rules[i].ip_numbers = config->rules[i].ip_numbers == RULES_YES;
		match->rules[i].path_variants = wants_variants(config, &config->rules[i]);
		if (!compile_rule(match, &config->rules[i], &match->rules[i], arena))
			return NULL;
	}
	return file_all_rules(match, value_capacity, arena) ? match : NULL;
}
