/*
 * permit_secret.h: shares between servers the secret that encrypts and signs permits, the texts by
 * which clients refund or report their requests.
 *
 * Servers with one Redis share a secret there, in the key PREFIXsecret as 32 hexadecimal digits.
 * The first server makes it. Each server renews its lifetime, and stores it again if it is gone. So
 * each server can read the permits of all. Until a server has read the secret, and if no limit is
 * at a Redis, it uses the secret of its table.
 *
 * One worker maintains the secrets; all workers read them.
 */
#ifndef SERVER_PERMIT_SECRET_H
#define SERVER_PERMIT_SECRET_H

#include <stdatomic.h>

#include "base/hash.h"
#include "net/net.h"
#include "redis/network/url.h"
#include "server/stores/stores.h"

/*
 * Secrets of Redis. If a Redis loses its secret, servers that start then may agree on another one.
 */
#define PERMIT_SECRETS_MAX 8

struct permit_secrets {
	struct hash_key keys[PERMIT_SECRETS_MAX]; /* the newest last; each is written once */
	_Atomic size_t count;
};

/** How many secrets may have written a permit: those of Redis, and `own`. */
size_t permit_secrets_count(const struct permit_secrets *secrets);
/** The i-th secret, beginning with the newest. The last is `own`, the table's. */
const struct hash_key *permit_secrets_at(const struct permit_secrets *secrets, size_t i,
                                         const struct hash_key *own);

#define PERMIT_SECRET_TEXT 33 /* 32 hexadecimal digits, and a NUL */

/** Writes a secret as text. */
void permit_secret_write(const struct hash_key *secret, char out[PERMIT_SECRET_TEXT]);
/** Reads that text. Returns false, and leaves *secret alone, if it is none. */
bool permit_secret_read(struct slice text, struct hash_key *secret);

struct secret_keeper;

/** Opens the keeper of the secret at the first store. Returns NULL if memory is short. */
struct secret_keeper *secret_keeper_open(struct permit_secrets *secrets,
                                         const struct stores *stores, struct net_loop *loop);
/** Called when the loop has ended, before it is closed. Accepts NULL, as does the next one. */
void secret_keeper_end(struct secret_keeper *keeper);
/** Called after the loop is closed. */
void secret_keeper_close(struct secret_keeper *keeper);
/** Does what is due. Returns when it is due again. */
uint64_t secret_keeper_tick(struct secret_keeper *keeper, uint64_t now_ns);

#endif
