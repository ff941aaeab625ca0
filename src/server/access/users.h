/*
 * users.h: compiles the users of a configuration, and checks their logins and permissions.
 *
 * They never change, except that a right password is remembered, so that later requests with it
 * need not compute its hash again. A reload copies that for users whose proof stays the same.
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
	struct hash_key id; /* equal in all configurations with the same name and proof */
	union {
		unsigned char digest[TOKEN_DIGEST_MAX]; /* of a token */
		uint64_t account;                       /* of RULES_UNIX: its number */
	};
	/*
	 * a set of limits that the user may use, by index in the engine, and after them one bit for
	 * limits that come with requests; NULL permits all
	 */
	uint64_t *limits;
	_Atomic uint64_t verified_login[2]; /* the fingerprint of the login that was right, or 0 */
};

struct users {
	uint64_t serial; /* unique in this process: connections find their user anew when it changes */
	/* for ids, tags and fingerprints; the same in all configurations of this process */
	struct hash_key key;
	size_t count;
	struct user items[];
};

/**
 * Makes the users of `rules`; *out is NULL if there are none. `old_users` has the users of the
 * former configuration, or is NULL. Computes one hash for each new kind of password hash. Returns
 * 0, ENOMEM, EIO, or EINVAL: an account that the system does not have or two users have, or a hash
 * that can't be computed.
 */
int users_open(struct users **out, const struct weir_config *rules,
               const struct weir_engine *engine, const struct users *old_users,
               struct weir_error *error);
/** Accepts NULL. */
void users_close(struct users *users);

/** The user's index, plus 1. */
static inline unsigned short users_number(const struct users *users, const struct user *user)
{
	return (unsigned short)(1 + (user - users->items));
}

/** The user with that id, or NULL. */
const struct user *users_find(const struct users *users, struct hash_key id);
/** The user with that name in a certificate, or NULL. */
const struct user *users_find_certificate(const struct users *users, const char *name);
/** The user with that account, or NULL. */
const struct user *users_find_account(const struct users *users, uint64_t account);

/* The results of users_check_login. */
enum users_login {
	USERS_KNOWN,
	USERS_WRONG,
	USERS_UNVERIFIED, /* a password whose hash has to be computed */
};

/**
 * A short hash of a login, made in a few nanoseconds, to compare it with the connection's last
 * right login. 64 keyed bits can't be guessed with one try per request.
 */
static inline uint64_t users_login_tag(const struct users *users, const struct request_login *login)
{
	uint64_t salt =
	    login->user.len ? hash_bytes(&users->key, login->user.data, login->user.len) : 0;

	return hash_salted(&users->key, salt, login->secret.data, login->secret.len);
}

/** A hash that no other login has. Returns false if the login is too long to be right. */
bool users_fingerprint(const struct users *users, const struct request_login *login,
                       struct hash_key *fingerprint);
/**
 * Finds the user of a login. For USERS_UNVERIFIED, *user is the one whose hash has to be computed.
 * If no user with a password has the name, that is another user, so that the time does not disclose
 * it; then *has_password is false, and the login is wrong whatever the hash.
 */
enum users_login users_check_login(struct users *users, const struct request_login *login,
                                   struct hash_key fingerprint, struct user **user,
                                   bool *has_password);
/** Remembers that the login was right. Any thread may call it. */
void user_remember(struct user *user, struct hash_key fingerprint);

/**
 * Whether the user, or nobody (NULL), may make a request of that class. Returns 0, EAUTH or EPERM.
 */
int user_check(const struct user *user, enum request_class class, struct weir_error *error);

/** Whether the user may use the limit with that index in the engine. */
static inline bool user_may_use(const struct user *user, size_t index)
{
	return !user->limits || (user->limits[index / 64] >> index % 64 & 1);
}

#endif
