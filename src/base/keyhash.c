#include "base/keyhash.h"

static u128 draw_wide(const struct hash_key *secret, uint64_t *counter)
{
	uint64_t high = hash_salted(secret, (*counter)++, NULL, 0);

	return (u128)high << 64 | hash_salted(secret, (*counter)++, NULL, 0);
}

void keyhash_init(struct keyhash *keyhash, const struct hash_key *secret)
{
	uint64_t counter = 0;

	for (size_t i = 0; i < KEYHASH_WORDS; i++)
		keyhash->nh[i] = hash_salted(secret, counter++, NULL, 0);
	keyhash->low = draw_wide(secret, &counter);
	keyhash->high = draw_wide(secret, &counter);
	keyhash->add = draw_wide(secret, &counter);
}

/* Block after block, each salted with the hash so far. The length of all is in the first salt. */
uint64_t keyhash_long(const struct keyhash *h, uint64_t salt, const void *data, size_t len)
{
	const unsigned char *p = data;
	uint64_t hash = keyhash(h, salt, &len, sizeof len);

	for (; len > KEYHASH_BLOCK; len -= KEYHASH_BLOCK, p += KEYHASH_BLOCK)
		hash = keyhash(h, hash, p, KEYHASH_BLOCK);
	return keyhash(h, hash, p, len);
}
