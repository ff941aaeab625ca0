/*
 * rule_index.h: the members of struct match: rules filed under the values that their conditions
 * name.
 */
#ifndef ENGINE_RULES_RULE_INDEX_H
#define ENGINE_RULES_RULE_INDEX_H

#include "base/arena.h"
#include "base/keyhash.h"
#include "rules/model.h"

/* A lookup looks up a value, or the beginning of one. */
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

/* The numbers filed under a hash: of a name its attribute, of a value the rules that ask for it. */
struct index_slot {
	uint64_t hash;  /* 0 if free */
	uint32_t first; /* of `entries`, or the attribute */
	uint32_t count;
	struct slice text; /* of a whole value; its data is NULL if there is none */
};

struct slot_table {
	struct index_slot *items;
	size_t mask;
};

struct indexed_condition {
	int attribute;
	/*
	 * 1 + the slot of a single whole value, or 0 if it is something else. A request looks its own
	 * value up once, so this compares two numbers and no text that is outside the cache.
	 */
	uint32_t equal;
	const struct rules_condition *rule;
};

struct indexed_rule {
	struct indexed_condition *conditions;
	uint32_t condition_count;
	uint32_t filed; /* the condition that it is filed under, or NOT_FILED */
	bool path_variants, ip_numbers;
};

#define NOT_FILED UINT32_MAX

struct match {
	struct keyhash hash;
	struct indexed_attribute *attributes;
	size_t attribute_count;
	/* The attribute `path`, and folded to what its variants share: an attribute of its own,
	 * without a name, so that it is indexed as any other. -1 if no rule asks for it. */
	int path, folded;
	struct indexed_rule *rules;
	size_t rule_count;
	uint32_t *always; /* rules that are filed nowhere */
	size_t always_count;
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
	       !(slot->hash == hash && slice_equal(match->attributes[slot->first].name, name)))
		slot = slot == &match->names.items[match->names.mask] ? match->names.items : slot + 1;
	return slot;
}

/** As match_new. */
struct match *index_new(const struct weir_config *config, const struct hash_key *key,
                        struct arena *arena);

#endif
