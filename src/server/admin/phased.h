/*
 * phased.h: the names of keys whose limits have phases, and the last phase that each was seen in.
 *
 * A report names a key only by its hash, so this keeps the names from requests for the log and for
 * listings, in sets of PHASED_KEPT keys at most. A key stays until it is closed; closed keys make
 * room for others.
 *
 * Any thread may call. Seeing a known phase again takes no lock.
 */
#ifndef SERVER_PHASED_H
#define SERVER_PHASED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "algo/outcomes/health.h"
#include "base/buffer.h"
#include "base/slice.h"

#define PHASED_KEPT     4096
#define PHASED_NAME_MAX 64 /* bytes kept of a key's name */

/* Keys that are told apart, but not shown: "#" and 8 hexadecimal digits. */
#define PHASED_HASH_TEXT 16
struct slice phased_hash_text(uint64_t hash, char room[PHASED_HASH_TEXT]);

struct phased;

struct phased *phased_open(void); /* NULL: out of memory */
void phased_close(struct phased *phases);

/* A key in a phase. */
struct phased_key {
	uint64_t hash;  /* of limit and key */
	uint64_t limit; /* the identity of its counts */
	uint8_t phase;  /* enum health_phase */
	bool cut;       /* the name is longer */
	uint8_t len;
	char name[PHASED_NAME_MAX];
};

/** Whether the key is known to be in that phase, so that phased_see would change nothing. */
bool phased_knows(const struct phased *phases, uint64_t hash, enum health_phase phase);

/**
 * Takes note of the key in its phase, under the name if it has one (else as it was known, or by
 * its hash), and fills in the name that it has then. Returns the phase that it was known to be in;
 * closed if it was not known.
 */
enum health_phase phased_see(struct phased *phases, struct phased_key *key);

/** Makes *key of a name; where data is NULL it has none. */
void phased_name(struct phased_key *key, struct slice name);

/** Appends the name as a text for the log, with its NUL. */
void phased_add_name(const struct phased_key *key, struct buffer *out);

/** Copies those of a limit that are not closed, `max` at most. Returns how many. */
size_t phased_list(struct phased *phases, uint64_t limit, struct phased_key *out, size_t max);

#endif
