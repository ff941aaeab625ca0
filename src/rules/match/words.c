/*
 * words.c: implements a set of short texts that is built once, in two passes, and then only read.
 * The texts of one hash bucket lie together in one array, each with a header of two bytes.
 */
#include "rules/match/words.h"

#include <stdint.h>
#include <string.h>

#include <weir/weir.h>

#include "base/number.h"
#include "base/os/os.h"

#define BUCKET_WORDS 4
#define CACHE_LINE   64
#define HEADER_SIZE  sizeof(uint16_t)
#define LENGTH_BITS  11

_Static_assert(WORDS_LENGTH_MAX == (1 << LENGTH_BITS) - 1, "a header holds any length");

int words_open(struct words *words, size_t most)
{
	struct hash_key secret;
	unsigned bits = 1;
	int status = os_random(&secret, sizeof secret);

	*words = (struct words){0};
	while (((size_t)BUCKET_WORDS << bits) < most)
		bits++;
	words->shift = 64 - bits;
	words->starts_size = (((size_t)1 << bits) + 1) * sizeof *words->starts;
	words->starts = os_pages_map(words->starts_size);
	if (!words->starts)
		return WEIR_ENOMEM;
	keyhash_init(&words->hash, &secret);
	return status;
}

static uint64_t hash_of(const struct words *words, enum words_kind kind, struct slice text)
{
	return keyhash(&words->hash, kind, text.data, text.len);
}

/*
 * The header of a word: its length, kind, and four bits of its hash. It is never 0, which marks the
 * end of a bucket that is not full, because no word is empty.
 */
static uint16_t header_of(uint64_t hash, enum words_kind kind, size_t len)
{
	return (uint16_t)(len | (size_t)kind << LENGTH_BITS | (hash & 15) << (LENGTH_BITS + 1));
}

/* First pass: adds up in `starts` how many bytes the words of each bucket take. */
void words_count(struct words *words, enum words_kind kind, struct slice text)
{
	words->starts[hash_of(words, kind, text) >> words->shift] += (uint32_t)(HEADER_SIZE + text.len);
}

/*
 * Allocates the array, and sets each bucket's start to the bucket's end. In the second pass each
 * word is put before those that are there, so the start moves down to where it belongs.
 */
int words_allocate(struct words *words)
{
	size_t buckets = (size_t)1 << (64 - words->shift);
	uint32_t end = 0;

	for (size_t i = 0; i < buckets; i++) {
		end += words->starts[i];
		words->starts[i] = end;
	}
	words->starts[buckets] = end;
	words->pool_size = end + HEADER_SIZE;
	words->pool = os_pages_map(words->pool_size);
	return words->pool ? WEIR_OK : WEIR_ENOMEM;
}

/*
 * Searches from a bucket's start to that of the next bucket. The words may end before that: while
 * the set is being filled, or where a word that was added twice has left its space unused.
 */
static bool find_in_bucket(const struct words *words, const uint32_t *start, uint16_t header,
                           struct slice text)
{
	const unsigned char *at = words->pool + start[0], *end = words->pool + start[1];
	uint16_t found;

	for (const unsigned char *line = at + CACHE_LINE; line < end && line < at + 4 * CACHE_LINE;
	     line += CACHE_LINE)
		__builtin_prefetch(line);
	for (; at < end; at += HEADER_SIZE + (found & WORDS_LENGTH_MAX)) {
		memcpy(&found, at, HEADER_SIZE);
		if (found == header && memcmp(at + HEADER_SIZE, text.data, text.len) == 0)
			return true;
		if (found == 0)
			break;
	}
	return false;
}

void words_add(struct words *words, enum words_kind kind, struct slice text)
{
	uint64_t hash = hash_of(words, kind, text);
	uint32_t *start = &words->starts[hash >> words->shift];
	uint16_t header = header_of(hash, kind, text.len);

	if (find_in_bucket(words, start, header, text))
		return;
	*start -= (uint32_t)(HEADER_SIZE + text.len);
	memcpy(words->pool + *start, &header, HEADER_SIZE);
	memcpy(words->pool + *start + HEADER_SIZE, text.data, text.len);
	words->count++;
}

bool words_have(const struct words *words, enum words_kind kind, struct slice text)
{
	uint64_t hash;

	if (text.len == 0 || text.len > WORDS_LENGTH_MAX)
		return false;
	hash = hash_of(words, kind, text);
	return find_in_bucket(words, &words->starts[hash >> words->shift],
	                      header_of(hash, kind, text.len), text);
}

void words_close(struct words *words)
{
	os_pages_unmap(words->pool, words->pool_size);
	os_pages_unmap(words->starts, words->starts_size);
}
