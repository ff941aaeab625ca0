/*
 * permit_secret.h: the secrets under which permits are written and read.
 *
 * Servers on one Redis share a secret there, under PREFIXsecret as 32 hexadecimal digits. The first
 * server makes it; each renews its lifetime, and puts it back if it is gone. So a permit works at
 * every server. Until a server knows it, and if no limit is at a Redis, the table's secret serves.
 *
 * One worker keeps it; all read it.
 */
#ifndef SERVER_PERMIT_SECRET_H
#define SERVER_PERMIT_SECRET_H

#include <stdatomic.h>

#include "base/hash.h"
#include "net/net.h"
#include "redis/network/url.h"
#include "server/stores/stores.h"

/* Secrets at Redis. If a Redis forgets its secret, servers that start then agree on another. */
#define PERMIT_SECRETS_MAX 8

struct permit_secrets {
	struct hash_key keys[PERMIT_SECRETS_MAX]; /* the newest last; each written once */
	_Atomic size_t count;
};

/** How many there are to be tried: those of Redis, and `own`. */
size_t permit_secrets_count(const struct permit_secrets *secrets);
/** The i-th, the newest first; `own` is the last. */
const struct hash_key *permit_secrets_at(const struct permit_secrets *secrets, size_t i,
                                         const struct hash_key *own);

struct secret_keeper;

/** Keeps the secret at the first of the stores. NULL: no memory. */
struct secret_keeper *secret_keeper_open(struct permit_secrets *secrets,
                                         const struct stores *stores, struct net_loop *loop);
/** When the loop has ended, before it is closed. NULL does nothing, as below. */
void secret_keeper_end(struct secret_keeper *keeper);
/** Behind the end of the loop. */
void secret_keeper_close(struct secret_keeper *keeper);
/** Does what is due. Returns when to call it again. */
uint64_t secret_keeper_tick(struct secret_keeper *keeper, uint64_t now_ns);

#endif
