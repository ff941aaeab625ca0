/*
 * key_phases.h: the names of keys whose limits have phases, and the last phase that each was seen
 * in.
 *
 * A report names a key only by its hash, so this keeps the names from requests for the log and for
 * listings, in sets of KEY_PHASES_KEPT keys at most. A key stays until it is closed; closed keys
 * make room for others.
 *
 * Any thread may call. Seeing a known phase again takes no lock.
 */
#ifndef SERVER_KEY_PHASES_H
#define SERVER_KEY_PHASES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "algo/outcomes/health.h"
#include "base/buffer.h"
#include "base/slice.h"

#define KEY_PHASES_KEPT     4096
#define KEY_PHASES_NAME_MAX 64 /* bytes kept of a key's name */

/* Keys that are told apart, but not shown: "#" and 8 hexadecimal digits. */
#define KEY_PHASES_HASH_TEXT 16
struct slice key_phases_hash_text(uint64_t hash, char room[KEY_PHASES_HASH_TEXT]);

struct key_phases;

struct key_phases *key_phases_open(void); /* NULL: out of memory */
void key_phases_close(struct key_phases *phases);

/* A key in a phase. */
struct key_phase {
	uint64_t hash;  /* of limit and key */
	uint64_t limit; /* the identity of its counts */
	uint8_t phase;  /* enum health_phase */
	bool cut;       /* the name is longer */
	uint8_t len;
	char name[KEY_PHASES_NAME_MAX];
};

/** Whether the key is known to be in that phase, so that key_phases_record would change nothing. */
bool key_phases_knows(const struct key_phases *phases, uint64_t hash, enum health_phase phase);

/**
 * Takes note of the key in its phase, under the name if it has one (else as it was known, or by
 * its hash), and fills in the name that it has then. Returns the phase that it was known to be in;
 * closed if it was not known.
 */
enum health_phase key_phases_record(struct key_phases *phases, struct key_phase *key);

/** Makes *key of a name; where data is NULL it has none. */
void key_phases_set_name(struct key_phase *key, struct slice name);

/** Writes the name as a text for the log, and returns `out`. */
#define KEY_PHASES_TEXT_MAX (KEY_PHASES_NAME_MAX + sizeof "…")
const char *key_phases_text(const struct key_phase *key, char out[KEY_PHASES_TEXT_MAX]);

/** Copies those of a limit that are not closed, `max` at most. Returns how many. */
size_t key_phases_list(struct key_phases *phases, uint64_t limit, struct key_phase *out,
                       size_t max);

#endif
