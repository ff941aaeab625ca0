/*
 * hash.c: computes keyed hashes: SipHash-1-3 for hash tables, and SipHash-2-4 with 128 bits as a
 * message authentication code. The first number is the rounds for each word of the input, the
 * second the rounds at the end.
 */
#include "base/hash.h"

#include <string.h>

struct siphash {
	uint64_t v0, v1, v2, v3;
};

static inline uint64_t rotate(uint64_t x, int bits)
{
	return (x << bits) | (x >> (64 - bits));
}

static inline void siphash_round(struct siphash *s)
{
	s->v0 += s->v1;
	s->v2 += s->v3;
	s->v1 = rotate(s->v1, 13) ^ s->v0;
	s->v3 = rotate(s->v3, 16) ^ s->v2;
	s->v0 = rotate(s->v0, 32);
	s->v2 += s->v1;
	s->v0 += s->v3;
	s->v1 = rotate(s->v1, 17) ^ s->v2;
	s->v3 = rotate(s->v3, 21) ^ s->v0;
	s->v2 = rotate(s->v2, 32);
}

static inline void siphash_rounds(struct siphash *s, int n)
{
	while (n-- > 0)
		siphash_round(s);
}

static inline void siphash_absorb(struct siphash *s, uint64_t word, int rounds)
{
	s->v3 ^= word;
	siphash_rounds(s, rounds);
	s->v0 ^= word;
}

static inline uint64_t load_le64(const unsigned char *p)
{
	uint64_t word;

	memcpy(&word, p, 8);
#if __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__
	word = __builtin_bswap64(word);
#endif
	return word;
}

/* The last 0 to 7 bytes, without reading past the end. */
static inline uint64_t load_last_bytes(const unsigned char *p, size_t len)
{
	uint64_t word = 0;

	for (size_t i = 0; i < len; i++)
		word |= (uint64_t)p[i] << (8 * i);
	return word;
}

static inline struct siphash siphash_start(const struct hash_key *key)
{
	return (struct siphash){
	    key->k0 ^ UINT64_C(0x736f6d6570736575),
	    key->k1 ^ UINT64_C(0x646f72616e646f6d),
	    key->k0 ^ UINT64_C(0x6c7967656e657261),
	    key->k1 ^ UINT64_C(0x7465646279746573),
	};
}

/* Absorbs `data`, the rest of an input whose first `hashed_len` bytes are absorbed already. */
static inline void siphash_absorb_rest(struct siphash *s, const void *data, size_t len,
                                       size_t hashed_len, int rounds)
{
	const unsigned char *p = data;

	for (size_t rest = len; rest >= 8; rest -= 8, p += 8)
		siphash_absorb(s, load_le64(p), rounds);
	siphash_absorb(s, (uint64_t)(len + hashed_len) << 56 | load_last_bytes(p, len % 8), rounds);
}

static inline uint64_t siphash_finish(struct siphash *s, int rounds)
{
	siphash_rounds(s, rounds);
	return s->v0 ^ s->v1 ^ s->v2 ^ s->v3;
}

static inline uint64_t siphash_1_3(struct siphash s, const void *data, size_t len,
                                   size_t hashed_len)
{
	siphash_absorb_rest(&s, data, len, hashed_len, 1);
	s.v2 ^= 0xff;
	return siphash_finish(&s, 3);
}

/* The salt is the first word of the input. */
uint64_t hash_salted(const struct hash_key *key, uint64_t salt, const void *data, size_t len)
{
	struct siphash s = siphash_start(key);

	siphash_absorb(&s, salt, 1);
	return siphash_1_3(s, data, len, 8);
}

uint64_t hash_bytes(const struct hash_key *key, const void *data, size_t len)
{
	return siphash_1_3(siphash_start(key), data, len, 0);
}

/* The constants 0xee and 0xdd are those of SipHash with 128 bits. */
struct hash_key hash_mac(const struct hash_key *key, const void *data, size_t len)
{
	struct siphash s = siphash_start(key);
	struct hash_key out;

	s.v1 ^= 0xee;
	siphash_absorb_rest(&s, data, len, 0, 2);
	s.v2 ^= 0xee;
	out.k0 = siphash_finish(&s, 4);
	s.v1 ^= 0xdd;
	out.k1 = siphash_finish(&s, 4);
	return out;
}
