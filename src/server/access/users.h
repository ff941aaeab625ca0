/*
 * users.h: the users of a configuration, and what each may do.
 *
 * They belong to their configuration and never change, but for what is remembered of a password
 * that was right: later requests with it need not compute its hash again. A reload keeps that for
 * users whose proof stays the same.
 */
#ifndef SERVER_USERS_H
#define SERVER_USERS_H

#include <stdatomic.h>

#include "base/hash.h"
#include "engine/engine.h"
#include "proto/request.h"
#include "rules/model.h"
#include "server/access/password.h"

struct user {
	const struct rules_user *rule;
	struct hash_key id; /* the same in every configuration that has the same name and proof */
	union {
		unsigned char digest[TOKEN_DIGEST_MAX]; /* of a token */
		uint64_t account;                       /* of RULES_UNIX: its number */
	};
	uint64_t *limits; /* a bit for each that it may use, in the engine's order, and one for those that
	                     requests bring along; NULL: all */
	_Atomic uint64_t verified[2]; /* of the login that was right; 0: none was yet */
};

struct users {
	uint64_t serial;     /* of no other configuration's */
	struct hash_key key; /* of ids and of logins that are known; the process's */
	size_t count;
	struct user items[];
};

/**
 * *out is NULL where the configuration has none. `before`: of the one before, or NULL. 0, ENOMEM,
 * EIO, EINVAL (an account that the system does not have, or two users have; a hash that can't be
 * computed). Computes the hash of one password of each kind that is new.
 */
int users_open(struct users **out, const struct weir_config *rules,
               const struct weir_engine *engine, const struct users *before,
               struct weir_error *error);
/** NULL does nothing. */
void users_close(struct users *users);

/** The user's place, from 1. */
static inline unsigned short users_number(const struct users *users, const struct user *user)
{
	return (unsigned short)(1 + (user - users->items));
}

/** The user of that id, or NULL. */
const struct user *users_find(const struct users *users, struct hash_key id);
/** The user of that name in a certificate, or NULL. */
const struct user *users_find_certificate(const struct users *users, const char *name);
/** The user of that account, or NULL. */
const struct user *users_find_account(const struct users *users, uint64_t account);

/* What a login turns out to be. */
enum users_login {
	USERS_KNOWN,
	USERS_WRONG,
	USERS_UNVERIFIED, /* a password whose hash is to be computed */
};

/**
 * What a login is for short on one connection, in a few nanoseconds. The login that it is compared
 * with has proved who is there, and 64 keyed bits can't be guessed one request at a time.
 */
static inline uint64_t users_login_tag(const struct users *users, const struct request_login *login)
{
	uint64_t salt = login->user.len ? hash_bytes(&users->key, login->user.data, login->user.len) : 0;

	return hash_salted(&users->key, salt, login->secret.data, login->secret.len);
}

/**
 * What a login is for short anywhere: other logins have other marks. False: too long to be
 * anybody's.
 */
bool users_fingerprint(const struct users *users, const struct request_login *login,
                       struct hash_key *fingerprint);
/**
 * Looks for the user of a login. `user` receives it; where the hash is to be computed, the user
 * that the login says it is, or another one where there is none of that name: then *exists is
 * false, and the time that it takes tells nobody so.
 */
enum users_login users_check_login(struct users *users, const struct request_login *login,
                                   struct hash_key fingerprint, struct user **user, bool *exists);
/** The login of that mark was right. Any thread. */
void user_remember(struct user *user, struct hash_key fingerprint);

/** Whether the user, or nobody (NULL), may make a request of that class: 0, EAUTH, EPERM. */
int user_check(const struct user *user, enum request_class class, struct weir_error *error);

/** Whether it may use the limit of that index in the engine. */
static inline bool user_may_use(const struct user *user, size_t index)
{
	return !user->limits || (user->limits[index / 64] >> index % 64 & 1);
}

#endif
