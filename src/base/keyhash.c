/*
 * keyhash.c: derives the secret words of the hash that finds a client's key in the key table, and
 * hashes keys that are longer than one block.
 */
#include "base/keyhash.h"

void keyhash_init(struct keyhash *keyhash, const struct hash_key *secret)
{
	uint64_t counter = 0;

	for (size_t i = 0; i < KEYHASH_WORDS; i++)
		keyhash->nh[i] = hash_salted(secret, counter++, NULL, 0);
	keyhash->low = hash_salted(secret, counter++, NULL, 0);
	keyhash->high = hash_salted(secret, counter, NULL, 0);
}

/*
 * Hashes a key of more than one block: each block is salted with the hash of those before it. The
 * first salt is a hash of the length.
 */
uint64_t keyhash_long(const struct keyhash *h, uint64_t salt, const void *data, size_t len)
{
	const unsigned char *p = data;
	uint64_t hash = keyhash(h, salt, &len, sizeof len);

	for (; len > KEYHASH_BLOCK; len -= KEYHASH_BLOCK, p += KEYHASH_BLOCK)
		hash = keyhash(h, hash, p, KEYHASH_BLOCK);
	return keyhash(h, hash, p, len);
}
