#include "server/permit_text.h"

#include <stddef.h>
#include <string.h>

#define WORDS_HEAD   2
#define WORDS_CHARGE 3
#define WORDS_MAX    (WORDS_HEAD + WORDS_CHARGE * WEIR_PERMITS_MAX)

/* The bytes that are encoded. */
struct sealed {
	struct hash_key tag;
	uint64_t words[WORDS_MAX];
};

struct keys {
	struct hash_key tag, stream;
};

/* Hashes of the secret like no other: those of keys are SipHash-1-3 of counters. */
static struct keys keys_of(const struct hash_key *secret)
{
	static const char tag[] = "weir permit 1: tag", stream[] = "weir permit 1: stream";

	return (struct keys){hash_mac(secret, tag, sizeof tag),
	                     hash_mac(secret, stream, sizeof stream)};
}

/* Encrypts, and decrypts. */
static void apply_stream(struct sealed *sealed, size_t words, const struct hash_key *key)
{
	for (size_t i = 0; i < words; i += 2) {
		uint64_t block[] = {sealed->tag.k0, sealed->tag.k1, i};
		struct hash_key stream = hash_mac(key, block, sizeof block);

		sealed->words[i] ^= stream.k0;
		if (i + 1 < words)
			sealed->words[i + 1] ^= stream.k1;
	}
}

static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/* Base64url without padding (RFC 4648). Returns how many characters; there is room for them. */
static size_t encode(const uint8_t *bytes, size_t len, char *text)
{
	size_t n = 0;
	uint32_t bits = 0;
	unsigned held = 0;

	for (size_t i = 0; i < len; i++) {
		bits = bits << 8 | bytes[i];
		for (held += 8; held >= 6; held -= 6)
			text[n++] = digits[bits >> (held - 6) & 63];
	}
	if (held > 0)
		text[n++] = digits[bits << (6 - held) & 63];
	return n;
}

/* Returns how many bytes; 0 when it is no such text, or of more than `room`. */
static size_t decode(struct slice text, uint8_t *bytes, size_t room)
{
	size_t n = 0;
	uint32_t bits = 0;
	unsigned held = 0;

	for (size_t i = 0; i < text.len; i++) {
		const char *digit = memchr(digits, text.data[i], sizeof digits - 1);

		if (!digit)
			return 0;
		bits = bits << 6 | (uint32_t)(digit - digits);
		held += 6;
		if (held >= 8) {
			held -= 8;
			if (n == room)
				return 0;
			bytes[n++] = (uint8_t)(bits >> held);
		}
	}
	/* One text for each permit: nothing is left over. */
	return held < 6 && (bits & ((1u << held) - 1)) == 0 ? n : 0;
}

struct slice permit_text_write(const struct weir_permits *permits, const struct hash_key *secret,
                               struct arena *arena)
{
	struct keys keys = keys_of(secret);
	struct sealed sealed = {.words = {permits->id, permits->cost}};
	size_t words = WORDS_HEAD;
	char *text = arena_alloc(arena, sizeof sealed * 4 / 3 + 4);

	if (!text)
		return (struct slice){NULL, 0};
	for (size_t i = 0; i < permits->count; i++) {
		sealed.words[words++] = permits->charges[i].limit;
		sealed.words[words++] = permits->charges[i].key;
		sealed.words[words++] = permits->charges[i].until_ns;
	}
	sealed.tag = hash_mac(&keys.tag, sealed.words, words * sizeof *sealed.words);
	apply_stream(&sealed, words, &keys.stream);
	return (struct slice){text, encode((const uint8_t *)&sealed,
	                                   offsetof(struct sealed, words[words]), text)};
}

bool permit_text_read(struct slice text, const struct hash_key *secret,
                      struct weir_permits *permits)
{
	struct keys keys = keys_of(secret);
	struct sealed sealed;
	size_t len = decode(text, (uint8_t *)&sealed, sizeof sealed), words;
	struct hash_key tag;

	if (len < offsetof(struct sealed, words[WORDS_HEAD + WORDS_CHARGE]) ||
	    (len - offsetof(struct sealed, words[WORDS_HEAD])) %
	            (WORDS_CHARGE * sizeof *sealed.words) != 0)
		return false;
	words = (len - offsetof(struct sealed, words)) / sizeof *sealed.words;
	apply_stream(&sealed, words, &keys.stream);
	tag = hash_mac(&keys.tag, sealed.words, words * sizeof *sealed.words);
	/* No branch on a part of it: time would tell how much of a forged tag is right. */
	if (((tag.k0 ^ sealed.tag.k0) | (tag.k1 ^ sealed.tag.k1)) != 0)
		return false;
	*permits = (struct weir_permits){.id = sealed.words[0], .cost = sealed.words[1]};
	for (const uint64_t *word = sealed.words + WORDS_HEAD; word < sealed.words + words;
	     word += WORDS_CHARGE)
		permits->charges[permits->count++] = (struct weir_charge){word[0], word[1], word[2]};
	return true;
}
