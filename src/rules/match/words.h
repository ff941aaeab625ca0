/*
 * words.h: looks texts up in a set of millions of short texts, which is made once, with one cache
 * miss.
 *
 * The texts are stored in the order of their hashes, those of a bucket together. Before each text
 * are two bytes: its length, its kind, and a few bits of its hash. `starts` has the position of
 * each bucket. It takes a few bytes a bucket and is mostly in the cache, so a lookup waits only for
 * the bucket itself, which is a cache line or two. The hash has a secret, so nobody can fill one
 * bucket.
 *
 * The set is filled in two passes over the same texts, which must be the same both times:
 * words_count() for each, words_allocate(), words_add() for each.
 */
#ifndef RULES_WORDS_H
#define RULES_WORDS_H

#include "base/keyhash.h"
#include "base/slice.h"

enum words_kind { WORDS_TEXT, WORDS_ADDRESS };

#define WORDS_LENGTH_MAX 2047

struct words {
	struct keyhash hash;
	uint32_t *starts; /* of each bucket, and the end of the last */
	unsigned shift;   /* of a hash, to its bucket */
	unsigned char *pool;
	size_t starts_size, pool_size; /* bytes */
	size_t count;
};

/** Allocates the buckets for up to `most` texts. Returns 0, EIO or ENOMEM. */
int words_open(struct words *words, size_t most);
/** First pass: counts a text of 1 to WORDS_LENGTH_MAX bytes. */
void words_count(struct words *words, enum words_kind kind, struct slice text);
/** Allocates space for the texts that were counted. Returns 0 or ENOMEM. */
int words_allocate(struct words *words);
/** Second pass: adds a text. */
void words_add(struct words *words, enum words_kind kind, struct slice text);
void words_close(struct words *words);

bool words_have(const struct words *words, enum words_kind kind, struct slice text);

#endif
