/*
 * key_phases.h: records the names of keys whose limits have phases, and the last known phase of
 * each.
 *
 * Reports name a key only by its hash, so the log and listings take the name from here. There are
 * sets with KEY_PHASES_KEPT keys in all. Keys that are not closed stay; a closed key may be
 * replaced.
 *
 * Any thread may call. Finding that a phase is known takes no lock.
 */
#ifndef SERVER_KEY_PHASES_H
#define SERVER_KEY_PHASES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "algo/outcomes/breaker_state.h"
#include "base/buffer.h"
#include "base/slice.h"

#define KEY_PHASES_KEPT     4096
#define KEY_PHASES_NAME_MAX 64 /* bytes of a name that are stored */

/* The text that stands for a key whose name is unknown: "#" and 8 hexadecimal digits of a hash. */
#define KEY_PHASES_HASH_TEXT 16
struct slice key_phases_hash_text(uint64_t hash, char text[KEY_PHASES_HASH_TEXT]);

struct key_phases;

struct key_phases *key_phases_open(void); /* NULL if memory is short */
void key_phases_close(struct key_phases *phases);

/* What `name` of a key is. */
enum key_text {
	KEY_TEXT_HASH,   /* nothing yet, or the hash's text: the name is unknown */
	KEY_TEXT_NAME,   /* the key's name, which may be empty */
	KEY_TEXT_DIGEST, /* the digest of a secret key */
};

/* A key and its phase. */
struct key_phase {
	uint64_t hash;     /* of limit and key */
	uint64_t limit;    /* the limit's identity, algo_limit.identity */
	uint8_t phase;     /* enum breaker_phase */
	uint8_t text_kind; /* enum key_text */
	bool is_truncated; /* the name is longer than KEY_PHASES_NAME_MAX */
	uint8_t len;
	char name[KEY_PHASES_NAME_MAX];
};

/** Whether the key is known to be in that phase; then key_phases_record changes nothing. */
bool key_phases_knows(const struct key_phases *phases, uint64_t hash, enum breaker_phase phase);

/**
 * Records the key's phase and its name. If the key has no name, fills in the recorded one, or a
 * hash. A recorded digest stays, unless there is a new one. Returns the phase that was recorded
 * before, or closed.
 */
enum breaker_phase key_phases_record(struct key_phases *phases, struct key_phase *key);

/** Sets the name, or the text that stands for it. */
void key_phases_set_text(struct key_phase *key, enum key_text kind, struct slice text);

/** Writes the name as a text for the log, or a hash if it is unknown, and returns `out`. */
#define KEY_PHASES_TEXT_MAX (KEY_PHASES_NAME_MAX + sizeof "…")
const char *key_phases_text(const struct key_phase *key, char out[KEY_PHASES_TEXT_MAX]);

/** Whether the key is shown as this text although that is not its name. */
bool key_phases_shows_as(const struct key_phase *key, struct slice text);
/**
 * Counts the recorded keys of the limit that are shown as this text although that is not their
 * name, closed ones included. Copies one of them to *out.
 */
size_t key_phases_find_shown(struct key_phases *phases, uint64_t limit, struct slice text,
                             struct key_phase *out);
/** Whether the key with this hash is recorded, with its name. */
bool key_phases_has_name(struct key_phases *phases, uint64_t hash);

/** Copies the limit's keys that are not closed, `max` at most. Returns how many. */
size_t key_phases_list(struct key_phases *phases, uint64_t limit, struct key_phase *out,
                       size_t max);
/** The same for keys of all limits whose recorded phase is in the set, a bit for each phase. */
size_t key_phases_list_in(struct key_phases *phases, unsigned phase_set, struct key_phase *out,
                          size_t max);

#endif
