#include "engine/match.h"

#include "base/number.h"
#include "base/path.h"

/* A probe looks up a value, or the beginning of one. */
enum probe_kind { PROBE_NAME, PROBE_EQUAL, PROBE_PREFIX, PROBE_IP };

struct probe {
	enum probe_kind kind;
	unsigned length; /* bytes of a prefix, bits of an address */
};

struct attribute {
	struct slice name;
	struct probe *probes;
	size_t probe_count, probe_room;
};

struct entry { /* one of those filed under a hash */
	uint32_t number;
	uint32_t next; /* 1-based; 0: the last */
};

struct slot {
	uint64_t hash;
	uint32_t first; /* as entry.next; 0: a free slot */
};

struct condition {
	int attribute;
	const struct rules_condition *rule;
};

struct rule {
	struct condition *conditions;
	size_t condition_count;
	bool path_variants;
};

struct match {
	struct hash_key key;
	struct attribute *attributes;
	size_t attribute_count;
	/* The attribute `path`, and folded to what its variants share: an attribute of its own,
	 * without a name, so that it is indexed as any other. -1: no rule asks for it. */
	int path, folded;
	struct rule *rules;
	size_t rule_count;
	uint64_t *always; /* rules that are filed nowhere */
	struct slot *slots;
	size_t slot_mask;
	struct entry *entries;
	size_t entry_count;
};

static uint64_t probe_hash(const struct match *match, size_t attribute, struct probe probe,
                           struct slice bytes)
{
	uint64_t salt = (uint64_t)attribute << 32 | (uint64_t)probe.length << 8 | probe.kind;

	return hash_salted(&match->key, salt, bytes.data, bytes.len);
}

static struct slot *slot_find(const struct match *match, uint64_t hash)
{
	size_t i = hash & match->slot_mask;

	while (match->slots[i].first != 0 && match->slots[i].hash != hash)
		i = (i + 1) & match->slot_mask;
	return &match->slots[i];
}

static void file_under(struct match *match, uint64_t hash, size_t number)
{
	struct slot *slot = slot_find(match, hash);

	match->entries[match->entry_count++] = (struct entry){(uint32_t)number, slot->first};
	*slot = (struct slot){hash, (uint32_t)match->entry_count};
}

int match_attribute(const struct match *match, struct slice name)
{
	struct slot *slot = slot_find(match, probe_hash(match, 0, (struct probe){PROBE_NAME, 0}, name));

	for (uint32_t i = slot->first; i != 0; i = match->entries[i - 1].next) {
		uint32_t number = match->entries[i - 1].number;

		if (slice_equal(match->attributes[number].name, name))
			return (int)number;
	}
	return -1;
}

static int attribute_add(struct match *match, const char *text)
{
	struct slice name = slice_of(text);
	int number = match_attribute(match, name);

	if (number >= 0)
		return number;
	number = (int)match->attribute_count++;
	match->attributes[number].name = name;
	file_under(match, probe_hash(match, 0, (struct probe){PROBE_NAME, 0}, name), (size_t)number);
	return number;
}

static bool is_folded(const struct rule *rule, const char *attribute)
{
	return rule->path_variants && strcmp(attribute, "path") == 0;
}

/* attribute_add for a rule's condition or key. */
static int rule_attribute_add(struct match *match, const struct rule *rule, const char *name)
{
	int number = attribute_add(match, name);

	if (!is_folded(rule, name))
		return number;
	if (match->folded < 0) {
		match->path = number;
		match->folded = (int)match->attribute_count++;
	}
	return match->folded;
}

int match_key_attribute(const struct match *match, size_t rule, struct slice name)
{
	return match->rules[rule].path_variants && slice_equal(name, SLICE("path"))
	           ? match->folded
	           : match_attribute(match, name);
}

/* A path of a rule as the folded ones are to be compared with it: as one value or two. */
static size_t fold_value(const struct rules_value *value, struct rules_value out[2],
                         struct arena *arena)
{
	struct slice folded;
	char *copy;

	out[0] = *value;
	if (value->test != RULES_EQUAL && value->test != RULES_PREFIX)
		return 1;
	if (path_fold(arena, value->text, &folded) != 0)
		return 0;
	out[0].text = folded;
	if (value->test == RULES_EQUAL || folded.len <= 1 ||
	    value->text.data[value->text.len - 1] != '/')
		return 1;
	/* A prefix /api/ includes /api itself, a variant of it. */
	copy = arena_alloc(arena, folded.len + 1);
	if (!copy)
		return 0;
	memcpy(copy, folded.data, folded.len);
	copy[folded.len] = '/';
	out[0].text = (struct slice){copy, folded.len + 1};
	out[1] = (struct rules_value){.test = RULES_EQUAL, .text = folded};
	return 2;
}

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

/* The probe that finds `value` in a request, and the bytes it is filed under; false: none does. */
static bool probe_of(const struct rules_value *value, struct probe *probe, struct slice *bytes)
{
	int bits;

	*bytes = value->text;
	switch (value->test) {
	case RULES_EQUAL:
		*probe = (struct probe){PROBE_EQUAL, 0};
		return true;
	case RULES_PREFIX:
		*probe = (struct probe){PROBE_PREFIX, (unsigned)value->text.len};
		return true;
	case RULES_IP_RANGE:
		bits = ip_range_prefix(&value->range);
		*probe = (struct probe){PROBE_IP, (unsigned)bits};
		*bytes = (struct slice){(const char *)value->range.first.bytes, 16};
		return bits >= 0;
	case RULES_IP_PATTERN:
	case RULES_LISTED:
	case RULES_NUMBERS:
	case RULES_ANY:
	case RULES_NONE:
		break;
	}
	return false;
}

/* How well a condition serves to file its rule under: the number of values filed exactly, or 0. */
static unsigned usefulness(const struct rules_condition *condition)
{
	unsigned worth = 3;
	struct probe probe;
	struct slice bytes;

	if (condition->negated)
		return 0;
	for (size_t i = 0; i < condition->value_count; i++) {
		if (!probe_of(&condition->values[i], &probe, &bytes))
			return 0;
		worth = (unsigned)u64_min(worth, probe.kind == PROBE_EQUAL ? 3 : 2);
	}
	return condition->value_count > 0 ? worth : 0;
}

static bool probe_add(struct attribute *attribute, struct probe probe, struct arena *arena)
{
	struct probe *grown;

	for (size_t i = 0; i < attribute->probe_count; i++)
		if (attribute->probes[i].kind == probe.kind && attribute->probes[i].length == probe.length)
			return true;
	if (attribute->probe_count == attribute->probe_room) {
		attribute->probe_room = attribute->probe_room ? 2 * attribute->probe_room : 4;
		grown = arena_array(arena, attribute->probe_room, sizeof *grown);
		if (!grown)
			return false;
		for (size_t i = 0; i < attribute->probe_count; i++)
			grown[i] = attribute->probes[i];
		attribute->probes = grown;
	}
	attribute->probes[attribute->probe_count++] = probe;
	return true;
}

static bool file_rule(struct match *match, size_t number, struct arena *arena)
{
	const struct rule *rule = &match->rules[number];
	const struct condition *best = NULL;
	unsigned most = 0;

	for (size_t i = 0; i < rule->condition_count; i++) {
		unsigned worth = usefulness(rule->conditions[i].rule);

		if (worth > most) {
			most = worth;
			best = &rule->conditions[i];
		}
	}
	if (!best) {
		match->always[number / 64] |= UINT64_C(1) << (number % 64);
		return true;
	}
	for (size_t i = 0; i < best->rule->value_count; i++) {
		struct probe probe;
		struct slice bytes;

		if (!probe_of(&best->rule->values[i], &probe, &bytes) ||
		    !probe_add(&match->attributes[best->attribute], probe, arena))
			return false;
		file_under(match, probe_hash(match, (size_t)best->attribute, probe, bytes), number);
	}
	return true;
}

static bool wants_variants(const struct weir_config *config, const struct rules_rule *rule)
{
	return (rule->path_variants != RULES_UNSET ? rule->path_variants : config->path_variants) ==
	       RULES_YES;
}

static bool allocate(struct match *match, const struct weir_config *config, struct arena *arena)
{
	size_t names = 0, values = 0, slots = 16;

	for (size_t i = 0; i < config->rule_count; i++) {
		const struct rules_rule *rule = &config->rules[i];
		size_t most = wants_variants(config, rule) ? 2 : 1; /* a value's places in the index */

		names += rule->condition_count + rule->key_count;
		for (size_t j = 0; j < rule->condition_count; j++)
			values += most * rule->conditions[j].value_count;
	}
	while (slots < 2 * (names + values))
		slots *= 2;
	match->slot_mask = slots - 1;
	match->slots = arena_array(arena, slots, sizeof *match->slots);
	match->entries = arena_array(arena, names + values, sizeof *match->entries);
	match->attributes = arena_array(arena, names + 1, sizeof *match->attributes);
	match->rules = arena_array(arena, config->rule_count, sizeof *match->rules);
	match->always = arena_array(arena, config->rule_count / 64 + 1, sizeof *match->always);
	match->rule_count = config->rule_count;
	return match->slots && match->entries && match->attributes && match->rules && match->always;
}

static bool compile_rule(struct match *match, const struct rules_rule *from, struct rule *rule,
                         struct arena *arena)
{
	rule->condition_count = from->condition_count;
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
		rule->conditions[i] = (struct condition){attribute, condition};
	}
	for (size_t i = 0; i < from->key_count; i++)
		rule_attribute_add(match, rule, from->key[i]);
	return true;
}

struct match *match_new(const struct weir_config *config, const struct hash_key *key,
                        struct arena *arena)
{
	struct match *match = arena_alloc(arena, sizeof *match);

	if (!match || !allocate(match, config, arena))
		return NULL;
	match->key = *key;
	match->path = match->folded = -1;
	for (size_t i = 0; i < config->rule_count; i++) {
		match->rules[i].path_variants = wants_variants(config, &config->rules[i]);
		if (!compile_rule(match, &config->rules[i], &match->rules[i], arena) ||
		    !file_rule(match, i, arena))
			return NULL;
	}
	return match;
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

bool match_is_ip(struct match_value *value)
{
	if (value->form == IP_UNTRIED)
		value->form = ip_parse(value->text, &value->ip) ? IP_VALID : IP_INVALID;
	return value->form == IP_VALID;
}

/* Whether it is a whole number in that range; one past int64_t counts as the end. */
static bool numbers_hold(const struct rules_numbers *numbers, struct slice text)
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

static bool is_listed(const struct dictionary *dictionary, struct match_value *value)
{
	bool is_ip = dictionary_has_addresses(dictionary) && match_is_ip(value);

	return dictionary_has(dictionary, value->text, is_ip ? &value->ip : NULL);
}

static bool value_holds(const struct rules_value *test, struct match_value *value)
{
	bool present = value->text.data;

	switch (test->test) {
	case RULES_EQUAL:
		return present && slice_equal(value->text, test->text);
	case RULES_PREFIX:
		return present && value->text.len >= test->text.len &&
		       memcmp(value->text.data, test->text.data, test->text.len) == 0;
	case RULES_IP_RANGE:
		return present && match_is_ip(value) && ip_in_range(&value->ip, &test->range);
	case RULES_IP_PATTERN:
		return present && match_is_ip(value) && ip_is_like(&value->ip, &test->pattern);
	case RULES_LISTED:
		return present && is_listed(test->dictionary, value);
	case RULES_NUMBERS:
		return present && numbers_hold(&test->numbers, value->text);
	case RULES_ANY:
		return value->text.len > 0;
	case RULES_NONE:
		return value->text.len == 0;
	}
	return false;
}

static bool rule_holds(const struct rule *rule, struct match_value *values)
{
	for (size_t i = 0; i < rule->condition_count; i++) {
		const struct rules_condition *condition = rule->conditions[i].rule;
		struct match_value *value = &values[rule->conditions[i].attribute];
		bool holds = false;

		for (size_t j = 0; !holds && j < condition->value_count; j++)
			holds = value_holds(&condition->values[j], value);
		if (condition->negated ? holds || value->text.len == 0 : !holds)
			return false;
	}
	return true;
}

/* The bytes of `value` that this probe looks up; false when the value has none such. */
static bool probe_bytes(struct probe probe, struct match_value *value, struct ip *room,
                        struct slice *bytes)
{
	*bytes = value->text;
	switch (probe.kind) {
	case PROBE_PREFIX:
		bytes->len = probe.length;
		return value->text.len >= probe.length;
	case PROBE_IP:
		if (!match_is_ip(value))
			return false;
		*room = ip_network(&value->ip, probe.length);
		*bytes = (struct slice){(const char *)room->bytes, sizeof room->bytes};
		return true;
	default:
		return true;
	}
}

static void look_up(const struct match *match, size_t number, struct match_value *value,
                    uint64_t *found)
{
	const struct attribute *attribute = &match->attributes[number];

	for (size_t i = 0; i < attribute->probe_count; i++) {
		struct probe probe = attribute->probes[i];
		struct slice bytes;
		struct ip room;
		uint32_t entry;

		if (!probe_bytes(probe, value, &room, &bytes))
			continue;
		entry = slot_find(match, probe_hash(match, number, probe, bytes))->first;
		for (; entry != 0; entry = match->entries[entry - 1].next) {
			uint32_t rule = match->entries[entry - 1].number;

			if (rule < match->rule_count) /* a name's entry may collide */
				found[rule / 64] |= UINT64_C(1) << (rule % 64);
		}
	}
}

size_t match_words(const struct match *match)
{
	return (match->rule_count + 63) / 64;
}

uint64_t *match_rules(const struct match *match, struct match_value *values, struct arena *arena)
{
	size_t words = match_words(match);
	uint64_t *found = arena_array(arena, words, sizeof *found);

	if (!found)
		return NULL;
	if (match->folded >= 0 && values[match->path].text.data &&
	    path_fold(arena, values[match->path].text, &values[match->folded].text) != 0)
		return NULL;
	for (size_t i = 0; i < words; i++)
		found[i] = match->always[i];
	for (size_t i = 0; i < match->attribute_count; i++)
		if (values[i].text.data)
			look_up(match, i, &values[i], found);
	for (size_t i = 0; i < words; i++) {
		for (uint64_t rest = found[i]; rest != 0; rest &= rest - 1) {
			unsigned bit = (unsigned)__builtin_ctzll(rest);

			if (!rule_holds(&match->rules[64 * i + bit], values))
				found[i] &= ~(UINT64_C(1) << bit);
		}
	}
	return found;
}
