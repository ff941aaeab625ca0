#include "server/requests/permit_text.h"

#include <stddef.h>
#include <string.h>

#include "base/text/base64.h"
#include "proto/request.h"

#define WORDS_FIXED  2
#define WORDS_CHARGE 3
#define WORDS_NAMES  ((2 * WEIR_PERMITS_MAX + PERMIT_NAMES_MAX) / 8)
#define WORDS_MAX    (WORDS_FIXED + WORDS_CHARGE * WEIR_PERMITS_MAX + WORDS_NAMES + 2)

/* The word of the cost has the number of charges from this bit on. */
#define COUNT_SHIFT 56

/* The bytes that become base64. */
struct sealed {
	struct hash_key tag;
	uint64_t words[WORDS_MAX];
};

_Static_assert((sizeof(struct sealed) + 2) / 3 * 4 <= REPLY_PERMIT_MAX, "it fits into a reply");

struct keys {
	struct hash_key tag, stream;
};

/*
 * Derives the two keys. Nothing else hashes the secret so: hashes of keys are SipHash-1-3 of
 * counters.
 */
static struct keys keys_of(const struct hash_key *secret)
{
	static const char tag[] = "weir permit 1: tag", stream[] = "weir permit 1: stream";

	return (struct keys){hash_mac(secret, tag, sizeof tag),
	                     hash_mac(secret, stream, sizeof stream)};
}

/* Encrypts or decrypts. */
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

static bool has_names(const struct weir_permits *permits, const struct engine_names *names)
{
	for (size_t i = 0; i < permits->count; i++)
		if (names->of[i].data)
			return true;
	return false;
}

/* Returns how many words the names take. */
static size_t write_names(const struct weir_permits *permits, const struct engine_names *names,
                          uint64_t *words)
{
	unsigned char *bytes = (unsigned char *)words;
	size_t n = 0, left = PERMIT_NAMES_MAX;

	for (size_t i = 0; i < permits->count; i++) {
		struct slice name = names->of[i];
		bool has = name.data && name.len <= left;
		size_t len = has ? name.len : 0, mark = has ? len + 1 : 0;

		bytes[n++] = (unsigned char)(mark & 255);
		bytes[n++] = (unsigned char)(mark >> 8);
		if (len > 0)
			memcpy(bytes + n, name.data, len);
		n += len;
		left -= len;
	}
	while (n % sizeof *words != 0)
		bytes[n++] = 0;
	return n / sizeof *words;
}

/*
 * Returns how many words the names take, or 0 if memory is short. The tag has proved that the names
 * are as they were written.
 */
static size_t read_names(const uint64_t *words, size_t n, struct arena *arena,
                         const struct weir_permits *permits, struct engine_names *names)
{
	size_t size = n * sizeof *words, at = 0;
	unsigned char *copy = arena_alloc(arena, size);

	if (!copy)
		return 0;
	memcpy(copy, words, size);
	for (size_t i = 0; i < permits->count && at + 2 <= size; i++) {
		size_t mark = (size_t)copy[at] | (size_t)copy[at + 1] << 8;

		at += 2;
		if (mark == 0 || mark - 1 > size - at)
			continue;
		names->of[i] = (struct slice){(const char *)copy + at, mark - 1};
		at += mark - 1;
	}
	return (at + sizeof *words - 1) / sizeof *words;
}

struct slice permit_text_write(const struct weir_permits *permits, const struct engine_names *names,
                               const struct hash_key *secret, struct arena *arena)
{
	struct keys keys = keys_of(secret);
	struct sealed sealed; /* not cleared, because it is large */
	size_t words = WORDS_FIXED, len;
	char *text;

	sealed.words[0] = permits->id;
	sealed.words[1] = permits->cost;
	for (size_t i = 0; i < permits->count; i++) {
		sealed.words[words++] = permits->charges[i].limit;
		sealed.words[words++] = permits->charges[i].key;
		sealed.words[words++] = permits->charges[i].until_ns;
	}
	if (has_names(permits, names)) {
		sealed.words[1] |= (uint64_t)permits->count << COUNT_SHIFT;
		words += write_names(permits, names, sealed.words + words);
	}
	if ((permits->reserved[0] | permits->reserved[1]) != 0)
		sealed.words[words++] = permits->reserved[0];
	if (permits->reserved[1] != 0)
		sealed.words[words++] = permits->reserved[1];
	sealed.tag = hash_mac(&keys.tag, sealed.words, words * sizeof *sealed.words);
	apply_stream(&sealed, words, &keys.stream);
	len = offsetof(struct sealed, words[words]);
	text = arena_alloc(arena, len * 4 / 3 + 4);
	return (struct slice){text, text ? base64_url_encode((const uint8_t *)&sealed, len, text) : 0};
}

/* Decrypts the words and returns their number, or 0 if they were not written under this secret. */
static size_t decrypt_words(struct slice text, const struct hash_key *secret, struct sealed *sealed)
{
	struct keys keys = keys_of(secret);
	size_t len = base64_url_decode(text, (uint8_t *)sealed, sizeof *sealed), words;
	struct hash_key tag;

	if (len < offsetof(struct sealed, words[WORDS_FIXED + WORDS_CHARGE]) ||
	    len % sizeof *sealed->words != 0)
		return 0;
	words = (len - offsetof(struct sealed, words)) / sizeof *sealed->words;
	apply_stream(sealed, words, &keys.stream);
	tag = hash_mac(&keys.tag, sealed->words, words * sizeof *sealed->words);
	/*
	 * Compare all bits at once: with a branch on some, the time would tell how much of a forged tag
	 * is right.
	 */
	return ((tag.k0 ^ sealed->tag.k0) | (tag.k1 ^ sealed->tag.k1)) == 0 ? words : 0;
}

bool permit_text_read(struct slice text, const struct hash_key *secret, struct arena *arena,
                      struct weir_permits *permits, struct engine_names *names)
{
	struct sealed sealed;
	size_t words = decrypt_words(text, secret, &sealed), count, at = WORDS_FIXED;
	const uint64_t *word = sealed.words + WORDS_FIXED;

	if (words == 0)
		return false;
	count = sealed.words[1] >> COUNT_SHIFT;
	*names = (struct engine_names){0};
	*permits = (struct weir_permits){
	    .id = sealed.words[0],
	    .cost = sealed.words[1] & ((UINT64_C(1) << COUNT_SHIFT) - 1),
	    .count = count > 0 ? count : (words - WORDS_FIXED) / WORDS_CHARGE,
	};
	for (size_t i = 0; i < permits->count; i++, word += WORDS_CHARGE)
		permits->charges[i] = (struct weir_charge){word[0], word[1], word[2]};
	at += permits->count * WORDS_CHARGE;
	if (count > 0) {
		size_t used = read_names(sealed.words + at, words - at, arena, permits, names);

		if (used == 0)
			return false;
		at += used;
	}
	permits->reserved[0] = at < words ? sealed.words[at] : 0;
	permits->reserved[1] = at + 1 < words ? sealed.words[at + 1] : 0;
	return true;
}
