/*
 * keyhash.h: computes the hash of a key in the key table: keyed like SipHash, in a fifth of its
 * time for a short key.
 *
 * It is NH (Black, Halevi, Krawczyk, Krovetz, Rogaway, "UMAC", CRYPTO 1999) over 64-bit words. Two
 * different inputs agree in its 128 bits with a probability of at most 2^-64 over the secret, even
 * if an attacker chose them, because no hash is ever shown. A folded multiplication with further
 * keys then reduces the 128 bits to 64.
 */
#ifndef BASE_KEYHASH_H
#define BASE_KEYHASH_H

#include <string.h>

#include "base/hash.h"
#include "base/number.h"

#define KEYHASH_BLOCK 1024 /* bytes under one NH key; longer inputs are hashed block after block */
#define KEYHASH_WORDS (2 + KEYHASH_BLOCK / 8)

struct keyhash {
	uint64_t nh[KEYHASH_WORDS];
	uint64_t low, high; /* keys of the folded multiplication */
};

/** Derives all keys from 128 secret bits. */
void keyhash_init(struct keyhash *keyhash, const struct hash_key *secret);

__attribute__((noinline)) uint64_t keyhash_long(const struct keyhash *keyhash, uint64_t salt,
                                                const void *data, size_t len);

static inline uint64_t keyhash_word(const void *data)
{
	uint64_t word;

	memcpy(&word, data, sizeof word);
	return word;
}

static inline u128 keyhash_pair(uint64_t first, uint64_t second, const unsigned char *key)
{
	return (u128)(first + keyhash_word(key)) * (second + keyhash_word(key + 8));
}

struct keyhash_words {
	uint64_t first, second;
};

/* Returns 1 to 15 bytes as two words. They need no padding, because the length is hashed, too. */
static inline struct keyhash_words keyhash_tail(const unsigned char *p, size_t len)
{
	uint32_t first, last;

	if (len >= 8) /* the second word has the bytes behind the first eight */
		return (struct keyhash_words){keyhash_word(p),
		                              len == 8 ? 0 : keyhash_word(p + len - 8) >> (8 * (16 - len))};
	if (len >= 4) {
		memcpy(&first, p, 4);
		memcpy(&last, p + len - 4, 4);
		return (struct keyhash_words){first, last};
	}
	return (struct keyhash_words){
	    (uint64_t)p[0] | (uint64_t)p[len / 2] << 8 | (uint64_t)p[len - 1] << 16, 0};
}

/** The hash of `salt` and `data`. */
static inline uint64_t keyhash(const struct keyhash *h, uint64_t salt, const void *data, size_t len)
{
	const unsigned char *p = data, *key = (const unsigned char *)(h->nh + 2);
	u128 sum = (u128)(salt + h->nh[0]) * (len + h->nh[1]);
	size_t blocks = len & ~(size_t)15, rest = len % 16;

	if (__builtin_expect(len > KEYHASH_BLOCK, 0))
		return keyhash_long(h, salt, data, len);
	for (size_t i = 0; i < blocks; i += 16)
		sum += keyhash_pair(keyhash_word(p + i), keyhash_word(p + i + 8), key + i);
	if (rest != 0) {
		struct keyhash_words tail = keyhash_tail(p + blocks, rest);

		sum += keyhash_pair(tail.first, tail.second, key + blocks);
	}
	sum = (u128)((uint64_t)sum ^ h->low) * ((uint64_t)(sum >> 64) ^ h->high);
	return (uint64_t)sum ^ (uint64_t)(sum >> 64);
}

#endif
