/*
 * permit_text.c: encrypts and signs the charges of a permit into a text that clients send back, and
 * reads that text. permit_text.h has the format.
 *
 * A sealed permit is a tag, which proves that this server or one with its secret wrote it, and
 * words of 8 bytes: two fixed ones, three for each charge, then optional ones.
 */
#include "server/requests/permit_text.h"

#include <stddef.h>
#include <string.h>

#include "base/text/base64.h"
#include "proto/request.h"

#define WORDS_FIXED  2
#define WORDS_CHARGE 3
#define WORDS_NAMES  ((2 * WEIR_PERMITS_MAX + PERMIT_NAMES_MAX) / 8)
#define WORDS_MAX    (WORDS_FIXED + WORDS_CHARGE * WEIR_PERMITS_MAX + WORDS_NAMES + 2)

/* If there are names, the word of the cost has the number of charges from this bit on. */
#define COUNT_SHIFT 56

/* The bytes that become base64. */
struct sealed {
	struct hash_key tag;
	uint64_t words[WORDS_MAX];
};

_Static_assert((sizeof(struct sealed) + 2) / 3 * 4 <= REPLY_PERMIT_MAX, "it fits into a reply");

struct permit_keys {
	struct hash_key tag, stream;
};

/*
 * Derives the keys for the tag and for the encryption. Nothing else hashes the secret so: hashes of
 * keys are SipHash-1-3 of counters.
 */
static struct permit_keys derive_keys(const struct hash_key *secret)
{
	static const char tag[] = "weir permit 1: tag", stream[] = "weir permit 1: stream";

	return (struct permit_keys){hash_mac(secret, tag, sizeof tag),
	                            hash_mac(secret, stream, sizeof stream)};
}

/* Encrypts or decrypts the words: xors them with hashes of the tag and a counter, two a hash. */
static void apply_stream(struct sealed *sealed, size_t word_count, const struct hash_key *key)
{
	for (size_t i = 0; i < word_count; i += 2) {
		uint64_t block[] = {sealed->tag.k0, sealed->tag.k1, i};
		struct hash_key stream = hash_mac(key, block, sizeof block);

		sealed->words[i] ^= stream.k0;
		if (i + 1 < word_count)
			sealed->words[i + 1] ^= stream.k1;
	}
}

static bool has_names(const struct weir_permits *permits, const struct engine_names *names)
{
	for (size_t i = 0; i < permits->count; i++)
		if (names->key_names[i].data)
			return true;
	return false;
}

/*
 * Writes for each charge the length of its key's name plus 1, in 2 bytes, and the name; 0 if it has
 * none, or it does not fit beside the names before. Returns how many words that takes.
 */
static size_t write_names(const struct weir_permits *permits, const struct engine_names *names,
                          uint64_t *words)
{
	unsigned char *bytes = (unsigned char *)words;
	size_t n = 0, left = PERMIT_NAMES_MAX;

	for (size_t i = 0; i < permits->count; i++) {
		struct slice name = names->key_names[i];
		bool has_name = name.data && name.len <= left;
		size_t len = has_name ? name.len : 0, len_plus_1 = has_name ? len + 1 : 0;

		bytes[n++] = (unsigned char)(len_plus_1 & 255);
		bytes[n++] = (unsigned char)(len_plus_1 >> 8);
		if (len > 0)
			memcpy(bytes + n, name.data, len);
		n += len;
		left -= len;
	}
	while (n % sizeof *words != 0) /* fills the last word */
		bytes[n++] = 0;
	return n / sizeof *words;
}

/*
 * Reads what write_names has written; the tag has proved that nobody has changed it. Returns how
 * many words that is, or 0 if memory is short. The names are copied to `arena`.
 */
static size_t read_names(const uint64_t *words, size_t word_count, struct arena *arena,
                         const struct weir_permits *permits, struct engine_names *names)
{
	size_t size = word_count * sizeof *words, at = 0;
	unsigned char *copy = arena_alloc(arena, size);

	if (!copy)
		return 0;
	memcpy(copy, words, size);
	for (size_t i = 0; i < permits->count && at + 2 <= size; i++) {
		size_t len_plus_1 = (size_t)copy[at] | (size_t)copy[at + 1] << 8;

		at += 2;
		if (len_plus_1 == 0 || len_plus_1 - 1 > size - at)
			continue;
		names->key_names[i] = (struct slice){(const char *)copy + at, len_plus_1 - 1};
		at += len_plus_1 - 1;
	}
	return (at + sizeof *words - 1) / sizeof *words;
}

struct slice permit_text_write(const struct weir_permits *permits, const struct engine_names *names,
                               const struct hash_key *secret, struct arena *arena)
{
	struct permit_keys keys = derive_keys(secret);
	struct sealed sealed; /* not cleared, because it is large */
	size_t n = WORDS_FIXED, len;
	char *text;

	sealed.words[0] = permits->id;
	sealed.words[1] = permits->cost;
	for (size_t i = 0; i < permits->count; i++) {
		sealed.words[n++] = permits->charges[i].limit;
		sealed.words[n++] = permits->charges[i].key;
		sealed.words[n++] = permits->charges[i].until_ns;
	}
	if (has_names(permits, names)) {
		sealed.words[1] |= (uint64_t)permits->count << COUNT_SHIFT;
		n += write_names(permits, names, sealed.words + n);
	}
	/* the generations of the charges, and the giver: the server that granted the permit */
	if ((permits->reserved[0] | permits->reserved[1]) != 0)
		sealed.words[n++] = permits->reserved[0];
	if (permits->reserved[1] != 0)
		sealed.words[n++] = permits->reserved[1];
	sealed.tag = hash_mac(&keys.tag, sealed.words, n * sizeof *sealed.words);
	apply_stream(&sealed, n, &keys.stream);
	len = offsetof(struct sealed, words[n]);
	text = arena_alloc(arena, len * 4 / 3 + 4);
	return (struct slice){text, text ? base64_url_encode((const uint8_t *)&sealed, len, text) : 0};
}

/* Decrypts the words and returns their number, or 0 if they were not written under this secret. */
static size_t decrypt_words(struct slice text, const struct hash_key *secret, struct sealed *sealed)
{
	struct permit_keys keys = derive_keys(secret);
	size_t len = base64_url_decode(text, (uint8_t *)sealed, sizeof *sealed), n;
	struct hash_key tag;

	if (len < offsetof(struct sealed, words[WORDS_FIXED + WORDS_CHARGE]) ||
	    len % sizeof *sealed->words != 0)
		return 0;
	n = (len - offsetof(struct sealed, words)) / sizeof *sealed->words;
	apply_stream(sealed, n, &keys.stream);
	tag = hash_mac(&keys.tag, sealed->words, n * sizeof *sealed->words);
	/*
	 * Compare all bits at once: with a branch on some, the time would tell how much of a forged tag
	 * is right.
	 */
	return ((tag.k0 ^ sealed->tag.k0) | (tag.k1 ^ sealed->tag.k1)) == 0 ? n : 0;
}

bool permit_text_read(struct slice text, const struct hash_key *secret, struct arena *arena,
                      struct weir_permits *permits, struct engine_names *names)
{
	struct sealed sealed;
	size_t word_count = decrypt_words(text, secret, &sealed), charges_if_named, at = WORDS_FIXED;
	const uint64_t *word = sealed.words + WORDS_FIXED;

	if (word_count == 0)
		return false;
	/*
	 * The tag has proved that the numbers are ours. The count is 0 if no charge has a name; then it
	 * follows from the words, because the two optional ones at the end are fewer than a charge has.
	 */
	charges_if_named = sealed.words[1] >> COUNT_SHIFT;
	*names = (struct engine_names){0};
	*permits = (struct weir_permits){
	    .id = sealed.words[0],
	    .cost = sealed.words[1] & ((UINT64_C(1) << COUNT_SHIFT) - 1),
	    .count =
	        charges_if_named > 0 ? charges_if_named : (word_count - WORDS_FIXED) / WORDS_CHARGE,
	};
	for (size_t i = 0; i < permits->count; i++, word += WORDS_CHARGE)
		permits->charges[i] = (struct weir_charge){word[0], word[1], word[2]};
	at += permits->count * WORDS_CHARGE;
	if (charges_if_named > 0) {
		size_t name_words = read_names(sealed.words + at, word_count - at, arena, permits, names);

		if (name_words == 0)
			return false;
		at += name_words;
	}
	permits->reserved[0] = at < word_count ? sealed.words[at] : 0;
	permits->reserved[1] = at + 1 < word_count ? sealed.words[at + 1] : 0;
	return true;
}
