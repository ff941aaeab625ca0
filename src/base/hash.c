/* hash.c: computes SipHash-1-3 and SipHash-2-4. */
#include "base/hash.h"

#include <string.h>

struct sip {
	uint64_t v0, v1, v2, v3;
};

static inline uint64_t rotate(uint64_t x, int bits)
{
	return (x << bits) | (x >> (64 - bits));
}

static inline void sip_round(struct sip *s)
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

static inline void sip_rounds(struct sip *s, int n)
{
	while (n-- > 0)
		sip_round(s);
}

static inline void sip_word(struct sip *s, uint64_t word, int rounds)
{
	s->v3 ^= word;
	sip_rounds(s, rounds);
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
static inline uint64_t load_tail(const unsigned char *p, size_t len)
{
	uint64_t word = 0;

	for (size_t i = 0; i < len; i++)
		word |= (uint64_t)p[i] << (8 * i);
	return word;
}

static inline struct sip sip_start(const struct hash_key *key)
{
	return (struct sip){
	    key->k0 ^ UINT64_C(0x736f6d6570736575),
	    key->k1 ^ UINT64_C(0x646f72616e646f6d),
	    key->k0 ^ UINT64_C(0x6c7967656e657261),
	    key->k1 ^ UINT64_C(0x7465646279746573),
	};
}

/* Hashes the last part of an input, of which `before` bytes are hashed already. */
static inline void sip_data(struct sip *s, const void *data, size_t len, size_t before, int rounds)
{
	const unsigned char *p = data;

	for (size_t rest = len; rest >= 8; rest -= 8, p += 8)
		sip_word(s, load_le64(p), rounds);
	sip_word(s, (uint64_t)(len + before) << 56 | load_tail(p, len % 8), rounds);
}

static inline uint64_t sip_finish(struct sip *s, int rounds)
{
	sip_rounds(s, rounds);
	return s->v0 ^ s->v1 ^ s->v2 ^ s->v3;
}

static inline uint64_t sip_1_3(struct sip s, const void *data, size_t len, size_t before)
{
	sip_data(&s, data, len, before, 1);
	s.v2 ^= 0xff;
	return sip_finish(&s, 3);
}

uint64_t hash_salted(const struct hash_key *key, uint64_t salt, const void *data, size_t len)
{
	struct sip s = sip_start(key);

	sip_word(&s, salt, 1);
	return sip_1_3(s, data, len, 8);
}

uint64_t hash_bytes(const struct hash_key *key, const void *data, size_t len)
{
	return sip_1_3(sip_start(key), data, len, 0);
}

struct hash_key hash_mac(const struct hash_key *key, const void *data, size_t len)
{
	struct sip s = sip_start(key);
	struct hash_key out;

	s.v1 ^= 0xee;
	sip_data(&s, data, len, 0, 2);
	s.v2 ^= 0xee;
	out.k0 = sip_finish(&s, 4);
	s.v1 ^= 0xdd;
	out.k1 = sip_finish(&s, 4);
	return out;
}
