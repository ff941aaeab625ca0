/*
 * rule_index.h: the members of struct match: rules filed under the values that their conditions
 * name.
 */
#ifndef ENGINE_RULES_RULE_INDEX_H
#define ENGINE_RULES_RULE_INDEX_H

#include "base/arena.h"
#include "base/keyhash.h"
#include "rules/model.h"

/* How a request looks itself up: by a value, or by the first bytes or bits of one. */
enum lookup_kind { LOOKUP_NAME, LOOKUP_EQUAL, LOOKUP_PREFIX, LOOKUP_IP };

struct lookup {
	enum lookup_kind kind;
	unsigned length; /* bytes of a prefix, bits of an address */
};

struct indexed_attribute {
	struct slice name;
	struct lookup *lookups;
	size_t lookup_count, lookup_capacity;
};

/* A slot of a hash table: of a name, with its attribute, or of a value, with the rules filed there.
 */
struct index_slot {
	uint64_t hash;  /* 0 if free */
	union {
		uint32_t first_entry; /* of a value: the index in `entries` of its first rule */
		uint32_t attribute;   /* of a name */
	};
	uint32_t entry_count;
	struct slice whole_value; /* of a whole value; its data is NULL if there is none */
};

struct slot_table {
	struct index_slot *items;
	size_t mask;
};

struct indexed_condition {
	int attribute;
	/*
	 * If the condition is equality with one value: 1 + the slot of this value, otherwise 0. A
	 * request looks its own value up once, so this compares two numbers and no text that is outside
	 * the cache.
	 */
	uint32_t whole_value_slot;
	const struct rules_condition *definition; /* as the configuration has it */
};

struct indexed_rule {
	struct indexed_condition *conditions;
	uint32_t condition_count;
	uint32_t filed_condition; /* the condition that it is filed under, or NOT_FILED */
	bool path_variants, ip_numbers;
};

#define NOT_FILED UINT32_MAX

struct match {
	struct keyhash hash;
	struct indexed_attribute *attributes;
	size_t attribute_count;
	/* The attribute `path`, and folded to what its variants share: an attribute of its own,
	 * without a name, so that it is indexed as any other. -1 if no rule asks for it. */
	int path_attribute, folded_path_attribute;
	struct indexed_rule *rules;
	size_t rule_count;
	uint32_t
	    *always_checked; /* rules that are filed under no condition: checked for each request */
	size_t always_checked_count;
	struct slot_table names, values;
	uint32_t *entries; /* numbers of rules, in their order; those of a slot together */
};

static inline uint64_t index_hash(const struct match *match, size_t attribute, struct lookup lookup,
                                  struct slice bytes)
{
	uint64_t salt = (uint64_t)attribute << 32 | (uint64_t)lookup.length << 8 | lookup.kind;

	return u64_max(keyhash(&match->hash, salt, bytes.data, bytes.len), 1);
}

static inline struct index_slot *index_find(const struct slot_table *slots, uint64_t hash)
{
	size_t i = hash & slots->mask;

	while (slots->items[i].hash != 0 && slots->items[i].hash != hash)
		i = (i + 1) & slots->mask;
	return &slots->items[i];
}

static inline uint64_t index_name_hash(const struct match *match, struct slice name)
{
	return index_hash(match, 0, (struct lookup){LOOKUP_NAME, 0}, name);
}

/* The slot of a name, or the free one where it belongs: two names may have one hash. */
static inline struct index_slot *index_name(const struct match *match, struct slice name)
{
	uint64_t hash = index_name_hash(match, name);
	struct index_slot *slot = index_find(&match->names, hash);

	while (slot->hash != 0 &&
	       !(slot->hash == hash && slice_equal(match->attributes[slot->attribute].name, name)))
		slot = slot == &match->names.items[match->names.mask] ? match->names.items : slot + 1;
	return slot;
}

/** As match_new. */
struct match *index_new(const struct weir_config *config, const struct hash_key *key,
                        struct arena *arena);

#endif
