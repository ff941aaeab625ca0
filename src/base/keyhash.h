/*
 * keyhash.h: the hash of the keys of a table: fast, and keyed so that it can be proven.
 *
 * NH (Black, Halevi, Krawczyk, Krovetz, Rogaway, "UMAC", CRYPTO 1999) over
 * 64-bit words, made 64 bits long by multilinear hashing (Lemire and Kaser,
 * "Strongly universal string hashing is fast", 2014). Two different inputs
 * agree in all 64 bits with a probability of at most 2^-63 over the secret,
 * whoever chose them, as long as no hash is shown to him; and none is. Keys that
 * follow a pattern would still leave one in the result, so a bijection (the
 * finaliser of MurmurHash3) stirs it. A fifth of SipHash's time for a short key.
 */
#ifndef BASE_KEYHASH_H
#define BASE_KEYHASH_H

#include <string.h>

#include "base/hash.h"
#include "base/number.h"

#define KEYHASH_BLOCK 1024 /* bytes under one NH key; longer inputs are chained */
#define KEYHASH_WORDS (2 + KEYHASH_BLOCK / 8)

struct keyhash {
	uint64_t nh[KEYHASH_WORDS];
	u128 low, high, add; /* of the last step */
};

/** Derives everything from 128 secret bits. */
void keyhash_init(struct keyhash *keyhash, const struct hash_key *secret);

uint64_t keyhash_long(const struct keyhash *keyhash, uint64_t salt, const void *data, size_t len);

static inline uint64_t keyhash_word(const void *data)
{
	uint64_t word;

	memcpy(&word, data, sizeof word);
	return word;
}

/* Up to 15 bytes as two words, zeros behind them: the length is hashed too. */
static inline void keyhash_tail(const unsigned char *p, size_t len, uint64_t words[2])
{
	words[0] = words[1] = 0;
	if (len >= 8) {
		words[0] = keyhash_word(p);
		/* the last eight bytes, without those that are in the first word */
		words[1] = len == 8 ? 0 : keyhash_word(p + len - 8) >> (8 * (16 - len));
	} else if (len >= 4) {
		uint32_t first, last;

		memcpy(&first, p, 4);
		memcpy(&last, p + len - 4, 4);
		words[0] = first;
		words[1] = last;
	} else if (len > 0) {
		words[0] = (uint64_t)p[0] | (uint64_t)p[len / 2] << 8 | (uint64_t)p[len - 1] << 16;
	}
}

static inline uint64_t keyhash_stir(uint64_t x)
{
	x = (x ^ x >> 33) * UINT64_C(0xff51afd7ed558ccd);
	x = (x ^ x >> 33) * UINT64_C(0xc4ceb9fe1a85ec53);
	return x ^ x >> 33;
}

/** The hash of `salt` and `data`. */
static inline uint64_t keyhash(const struct keyhash *h, uint64_t salt, const void *data, size_t len)
{
	const unsigned char *p = data;
	const uint64_t *key = h->nh + 2;
	u128 sum = (u128)(salt + h->nh[0]) * (len + h->nh[1]);
	size_t rest = len;
	uint64_t tail[2];

	if (__builtin_expect(len > KEYHASH_BLOCK, 0))
		return keyhash_long(h, salt, data, len);
	for (; rest >= 16; rest -= 16, p += 16, key += 2)
		sum += (u128)(keyhash_word(p) + key[0]) * (keyhash_word(p + 8) + key[1]);
	if (rest > 0) {
		keyhash_tail(p, rest, tail);
		sum += (u128)(tail[0] + key[0]) * (tail[1] + key[1]);
	}
	sum = h->low * (uint64_t)sum + h->high * (uint64_t)(sum >> 64) + h->add;
	return keyhash_stir((uint64_t)(sum >> 64));
}

#endif
