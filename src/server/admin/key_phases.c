/*
 * key_phases.c: records the names of keys that have a circuit breaker, and the last recorded phase
 * of each (closed, open, half-open). The log and lists of keys show these names. The table of
 * states has only hashes of keys.
 *
 * It is a hash table of sets of eight keys. A new key replaces a closed one of its set.
 */
#include "server/admin/key_phases.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/number.h"

#define SET_KEYS 8
#define SETS     (KEY_PHASES_KEPT / SET_KEYS)

/*
 * Slots for keys whose hashes are congruent. Hashes and phases come first, so that a lookup reads
 * no other cache line. A free slot has hash 0.
 */
struct set {
	_Atomic uint64_t hashes[SET_KEYS];
	_Atomic uint8_t phases[SET_KEYS];
	/* under the mutex: */
	uint8_t next_victim; /* where the search for a closed key to replace continues */
	struct key_phase keys[SET_KEYS];
};

struct key_phases {
	pthread_mutex_t mutex;
	struct set sets[SETS];
};

struct key_phases *key_phases_open(void)
{
	struct key_phases *phases = calloc(1, sizeof *phases);

	if (phases)
		pthread_mutex_init(&phases->mutex, NULL);
	return phases;
}

void key_phases_close(struct key_phases *phases)
{
	if (!phases)
		return;
	pthread_mutex_destroy(&phases->mutex);
	free(phases);
}

/* Writes "#" and 8 digits, by which operators can tell keys without a name apart. */
struct slice key_phases_hash_text(uint64_t hash, char text[KEY_PHASES_HASH_TEXT])
{
	int len = snprintf(text, KEY_PHASES_HASH_TEXT, "#%08x",
	                   (unsigned)(hash * UINT64_C(0x9e3779b97f4a7c15) >> 32));

	return (struct slice){text, (size_t)len};
}

static size_t set_of(uint64_t hash)
{
	return hash % SETS;
}

const char *key_phases_text(const struct key_phase *key, char out[KEY_PHASES_TEXT_MAX])
{
	char hash_text[KEY_PHASES_HASH_TEXT];
	struct slice name = {key->name, key->len};

	if (key->text_kind == KEY_TEXT_HASH)
		name = key_phases_hash_text(key->hash, hash_text);
	for (size_t i = 0; i < name.len; i++) /* a NUL would end the text */
		out[i] = name.data[i] ? name.data[i] : '?';
	strcpy(out + name.len, key->is_truncated ? "…" : "");
	return out;
}

/* The slot of the key with this hash, or SET_KEYS. */
static size_t find_hash(const struct set *set, uint64_t hash)
{
	size_t i = 0;

	while (i < SET_KEYS && atomic_load_explicit(&set->hashes[i], memory_order_relaxed) != hash)
		i++;
	return i;
}

static enum breaker_phase recorded_phase(const struct set *set, size_t i)
{
	return (enum breaker_phase)atomic_load_explicit(&set->phases[i], memory_order_relaxed);
}

bool key_phases_knows(const struct key_phases *phases, uint64_t hash, enum breaker_phase phase)
{
	const struct set *set = &phases->sets[set_of(hash)];
	size_t i = find_hash(set, hash);

	return i < SET_KEYS && recorded_phase(set, i) == phase;
}

void key_phases_set_text(struct key_phase *key, enum key_text kind, struct slice text)
{
	size_t len = u64_min(text.len, KEY_PHASES_NAME_MAX);

	key->text_kind = (uint8_t)kind;
	key->len = (uint8_t)len;
	key->is_truncated = text.len > len;
	if (len > 0)
		memcpy(key->name, text.data, len);
}

/* A free slot, or that of a closed key, or SET_KEYS if no key of the set is closed. */
static size_t find_slot_for_new_key(struct set *set)
{
	size_t i = find_hash(set, 0);

	for (size_t n = 0; i == SET_KEYS && n < SET_KEYS; n++) {
		size_t at = set->next_victim++ % SET_KEYS;

		if (recorded_phase(set, at) == BREAKER_CLOSED)
			i = at;
	}
	return i;
}

/* A key that was secret in an earlier request stays so: a report has its name, but not the rule. */
static bool must_copy_name(const struct key_phase *key, const struct key_phase *recorded)
{
	return key->text_kind == KEY_TEXT_HASH ||
	       (key->text_kind == KEY_TEXT_NAME && recorded->text_kind == KEY_TEXT_DIGEST);
}

static void copy_name(struct key_phase *key, const struct key_phase *recorded)
{
	key->text_kind = recorded->text_kind;
	key->len = recorded->len;
	key->is_truncated = recorded->is_truncated;
	memcpy(key->name, recorded->name, sizeof key->name);
}

/*
 * Stores the phase, if there is a slot for the key. A closed key without a name gets none, because
 * its record would say nothing.
 */
enum breaker_phase key_phases_record(struct key_phases *phases, struct key_phase *key)
{
	struct set *set = &phases->sets[set_of(key->hash)];
	enum breaker_phase before = BREAKER_CLOSED;
	char text[KEY_PHASES_HASH_TEXT];
	size_t i;

	pthread_mutex_lock(&phases->mutex);
	i = find_hash(set, key->hash);
	if (i < SET_KEYS) {
		before = recorded_phase(set, i);
		if (must_copy_name(key, &set->keys[i]))
			copy_name(key, &set->keys[i]);
	} else if (key->text_kind != KEY_TEXT_HASH || key->phase != BREAKER_CLOSED) {
		i = find_slot_for_new_key(set);
	}
	if (key->text_kind == KEY_TEXT_HASH)
		key_phases_set_text(key, KEY_TEXT_HASH, key_phases_hash_text(key->hash, text));
	if (i < SET_KEYS) {
		set->keys[i] = *key;
		atomic_store_explicit(&set->phases[i], key->phase, memory_order_relaxed);
		atomic_store_explicit(&set->hashes[i], key->hash, memory_order_relaxed);
	}
	pthread_mutex_unlock(&phases->mutex);
	return before;
}

bool key_phases_shows_as(const struct key_phase *key, struct slice text)
{
	char shown[KEY_PHASES_TEXT_MAX];

	return (key->text_kind != KEY_TEXT_NAME || key->is_truncated) &&
	       slice_equal(slice_of(key_phases_text(key, shown)), text);
}

size_t key_phases_find_shown(struct key_phases *phases, uint64_t limit, struct slice text,
                             struct key_phase *out)
{
	size_t n = 0;

	pthread_mutex_lock(&phases->mutex);
	for (size_t i = 0; i < KEY_PHASES_KEPT; i++) {
		const struct key_phase *key = &phases->sets[i / SET_KEYS].keys[i % SET_KEYS];

		if (key->limit != limit || key->hash == 0 || !key_phases_shows_as(key, text))
			continue;
		*out = *key;
		n++;
	}
	pthread_mutex_unlock(&phases->mutex);
	return n;
}

bool key_phases_has_name(struct key_phases *phases, uint64_t hash)
{
	const struct set *set = &phases->sets[set_of(hash)];
	bool has_name;
	size_t i;

	pthread_mutex_lock(&phases->mutex);
	i = find_hash(set, hash);
	has_name = i < SET_KEYS && set->keys[i].text_kind == KEY_TEXT_NAME;
	pthread_mutex_unlock(&phases->mutex);
	return has_name;
}

size_t key_phases_list(struct key_phases *phases, uint64_t limit, struct key_phase *out, size_t max)
{
	size_t n = 0;

	pthread_mutex_lock(&phases->mutex);
	for (size_t i = 0; i < KEY_PHASES_KEPT && n < max; i++) {
		const struct set *set = &phases->sets[i / SET_KEYS];

		if (recorded_phase(set, i % SET_KEYS) != BREAKER_CLOSED &&
		    set->keys[i % SET_KEYS].limit == limit)
			out[n++] = set->keys[i % SET_KEYS];
	}
	pthread_mutex_unlock(&phases->mutex);
	return n;
}

size_t key_phases_list_in(struct key_phases *phases, unsigned phase_set, struct key_phase *out,
                          size_t max)
{
	size_t n = 0;

	pthread_mutex_lock(&phases->mutex);
	for (size_t i = 0; i < KEY_PHASES_KEPT && n < max; i++) {
		const struct set *set = &phases->sets[i / SET_KEYS];

		if (phase_set >> recorded_phase(set, i % SET_KEYS) & 1)
			out[n++] = set->keys[i % SET_KEYS];
	}
	pthread_mutex_unlock(&phases->mutex);
	return n;
}
