/*
 * hash.h: computes SipHash, a keyed hash: without the key nobody can choose inputs whose hashes
 * collide in a hash table.
 *
 * Source: Aumasson and Bernstein, "SipHash: a fast short-input PRF" (2012). SipHash-1-3 (one
 * compression and three finalisation rounds) is the variant that language runtimes use for their
 * hash tables; SipHash-2-4 authenticates texts.
 */
#ifndef BASE_HASH_H
#define BASE_HASH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct hash_key {
	uint64_t k0, k1;
};

/** Compares in constant time. */
static inline bool hash_key_equal(struct hash_key a, struct hash_key b)
{
	return ((a.k0 ^ b.k0) | (a.k1 ^ b.k1)) == 0;
}

/** SipHash-1-3 of `salt` (eight bytes, little-endian) followed by `data`. */
uint64_t hash_salted(const struct hash_key *key, uint64_t salt, const void *data, size_t len);

/** SipHash-1-3 of `data`. */
uint64_t hash_bytes(const struct hash_key *key, const void *data, size_t len);

/** 128 bits of SipHash-2-4: a message authentication code for texts that clients must not forge. */
struct hash_key hash_mac(const struct hash_key *key, const void *data, size_t len);

#endif
