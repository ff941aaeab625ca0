/* users.c: compiles the users of a configuration and the limits they may use; checks logins. */
#include "server/access/users.h"

#include <stdlib.h>
#include <string.h>

#include <openssl/crypto.h>

#include "base/buffer.h"
#include "base/error.h"
#include "base/os/os.h"
#include "rules/match/pattern.h"
#include "server/access/account.h"

/* The user of a login without a name, as at Redis, whose clients may also send this name. */
#define DEFAULT_NAME SLICE("default")

/* The name and the secret of a login, each after its length. */
#define FINGERPRINT_MAX (2 * (sizeof(uint32_t) + PASSWORD_MAX))

/* Returns how many bytes the text takes with its length. */
static size_t append_text(char *to, struct slice text)
{
	uint32_t len = (uint32_t)text.len;

	memcpy(to, &len, sizeof len);
	if (text.len > 0)
		memcpy(to + sizeof len, text.data, text.len);
	return sizeof len + text.len;
}

/* A password without a name is that of the user `default`. */
static bool is_nameless(const struct request_login *login)
{
	return login->user.len == 0 || slice_equal(login->user, DEFAULT_NAME);
}

/* Hashes name and secret. Returns false if they are longer than those of any user. */
bool users_fingerprint(const struct users *users, const struct request_login *login,
                       struct hash_key *fingerprint)
{
	char text[FINGERPRINT_MAX];
	size_t len;

	if (login->user.len > PASSWORD_MAX || login->secret.len > PASSWORD_MAX)
		return false;
	len = append_text(text, is_nameless(login) ? DEFAULT_NAME : login->user);
	len += append_text(text + len, login->secret);
	*fingerprint = hash_mac(&users->key, text, len);
	explicit_bzero(text, len);
	return true;
}

/* Derives the id from name and proof, so that it stays the same in a reload that keeps both. */
static int make_id(const struct users *users, struct user *user)
{
	const struct rules_user *rule = user->rule;
	struct buffer text = {0};

	buffer_printf(&text, "%d %s %s", (int)rule->proof, rule->name, rule->secret);
	if (text.failed)
		return WEIR_ENOMEM;
	user->id = hash_mac(&users->key, text.data, text.len);
	buffer_free(&text);
	return WEIR_OK;
}

/* Whether a pattern of the user matches the name of the limit. */
static bool matches_any_pattern(const struct rules_user *rule, const char *name)
{
	for (size_t i = 0; i < rule->limit_count; i++)
		if (pattern_matches(rule->limits[i].text, name))
			return true;
	return false;
}

/*
 * Compiles the patterns to a set of limits. Behind the limits of the engine it has a bit for those
 * that come with the commands CL.THROTTLE and THROTTLE. A user without patterns may use all.
 */
static int compile_limits(struct user *user, const struct weir_engine *engine)
{
	const struct rules_user *rule = user->rule;
	size_t n = engine_limit_count(engine);

	if (rule->limit_count == 0)
		return WEIR_OK;
	user->limits = calloc(n / 64 + 1, sizeof *user->limits);
	if (!user->limits)
		return WEIR_ENOMEM;
	for (size_t i = 0; i <= n; i++) {
		bool may = i < n ? matches_any_pattern(rule, engine_limit_at(engine, i)->name)
		                 : matches_any_pattern(rule, "CL.THROTTLE") ||
		                       matches_any_pattern(rule, "THROTTLE");

		user->limits[i / 64] |= (uint64_t)may << i % 64;
	}
	return WEIR_OK;
}

/* Remembers the right login of a user whose name and proof a reload has kept. */
static void copy_verified_login(struct user *user, const struct users *old_users)
{
	const struct user *old = old_users ? users_find(old_users, user->id) : NULL;

	for (int i = 0; old && i < 2; i++)
		atomic_store_explicit(&user->verified_login[i],
		                      atomic_load_explicit(&old->verified_login[i], memory_order_relaxed),
		                      memory_order_relaxed);
}

/* Returns the length of the hash's beginning, "$method$parameters". */
static size_t parameters_len(const char *hash)
{
	const char *parameters = strchr(hash + 1, '$') + 1;

	return (size_t)(parameters - hash) + strcspn(parameters, "$");
}

/* Whether libcrypt can compute both hashes or neither, unless a salt is malformed. */
static bool has_same_parameters(const struct rules_user *a, const struct rules_user *b)
{
	return a->proof == RULES_PASSWORD && b->proof == RULES_PASSWORD &&
	       strlen(a->secret) == strlen(b->secret) &&
	       strncmp(a->secret, b->secret, parameters_len(a->secret)) == 0;
}

/*
 * Tries whether libcrypt can compute the hash. As that is slow, it tries only new hashes, and only
 * one with the same parameters.
 */
static int check_parameters(const struct users *users, const struct user *user,
                            const struct users *old_users, struct weir_error *error)
{
	const struct rules_user *rule = user->rule;
	int status;

	if (old_users && users_find(old_users, user->id))
		return WEIR_OK;
	for (const struct user *other = users->items; other < user; other++)
		if (has_same_parameters(other->rule, rule))
			return WEIR_OK;
	status = password_try(rule->secret);
	if (status == WEIR_OK)
		return WEIR_OK;
	return error_set_at(error, status, rule->line, rule->column,
	                    "password: expected a hash that libcrypt can compute, found one %s",
	                    status == WEIR_ENOMEM ? "it needs more memory than is available"
	                                          : "of other parameters, or damaged");
}

/* Finds the account whose name `unix:` has. Refuses one that another user has. */
static int find_account(const struct users *users, struct user *user, struct weir_error *error)
{
	const struct rules_user *rule = user->rule;

	if (!account_user(rule->secret, &user->account))
		return error_set_at(error, WEIR_EINVAL, rule->line, rule->column,
		                    "unix: expected a user of this system, found '%.64s'", rule->secret);
	for (const struct user *other = users->items; other < user; other++)
		if (other->rule->proof == RULES_UNIX && other->account == user->account)
			return error_set_at(error, WEIR_EINVAL, rule->line, rule->column,
			                    "unix: expected another account than user '%s' has, found the same",
			                    other->rule->name);
	return WEIR_OK;
}

/* Compiles a user: its id, its limits, and the proof by which it logs in. */
static int open_user(const struct users *users, struct user *user, const struct rules_user *rule,
                     const struct weir_engine *engine, const struct users *old_users,
                     struct weir_error *error)
{
	int status;

	user->rule = rule;
	if (rule->proof == RULES_TOKEN)
		token_read_digest(rule->secret, user->digest);
	status = make_id(users, user);
	if (status == WEIR_OK)
		status = compile_limits(user, engine);
	if (status != WEIR_OK)
		return error_set(error, status, "users: %s", weir_strerror(status));
	if (rule->proof == RULES_UNIX)
		status = find_account(users, user, error);
	else if (rule->proof == RULES_PASSWORD)
		status = check_parameters(users, user, old_users, error);
	if (status != WEIR_OK)
		return status;
	copy_verified_login(user, old_users);
	return WEIR_OK;
}

int users_open(struct users **out, const struct weir_config *rules,
               const struct weir_engine *engine, const struct users *old_users,
               struct weir_error *error)
{
	size_t n = rules->user_count;
	struct users *users;
	int status = WEIR_OK;

	*out = NULL;
	if (n == 0)
		return WEIR_OK;
	users = calloc(1, sizeof *users + n * sizeof *users->items);
	if (!users)
		return error_set(error, WEIR_ENOMEM, "users: out of memory");
	users->count = n;
	if (os_random(&users->serial, sizeof users->serial) != WEIR_OK ||
	    os_random(&users->key, sizeof users->key) != WEIR_OK)
		status = error_set(error, WEIR_EIO, "users: no random numbers");
	if (old_users)
		users->key = old_users->key;
	for (size_t i = 0; i < n && status == WEIR_OK; i++)
		status = open_user(users, &users->items[i], &rules->users[i], engine, old_users, error);
	if (status != WEIR_OK) {
		users_close(users);
		return status;
	}
	*out = users;
	return WEIR_OK;
}

void users_close(struct users *users)
{
	if (!users)
		return;
	for (size_t i = 0; i < users->count; i++)
		free(users->items[i].limits);
	free(users);
}

const struct user *users_find(const struct users *users, struct hash_key id)
{
	for (size_t i = 0; i < users->count; i++)
		if (hash_key_equal(users->items[i].id, id))
			return &users->items[i];
	return NULL;
}

const struct user *users_find_certificate(const struct users *users, const char *name)
{
	for (size_t i = 0; i < users->count; i++) {
		const struct rules_user *rule = users->items[i].rule;

		if (rule->proof == RULES_CERTIFICATE && strcmp(rule->secret, name) == 0)
			return &users->items[i];
	}
	return NULL;
}

const struct user *users_find_account(const struct users *users, uint64_t account)
{
	for (size_t i = 0; i < users->count; i++)
		if (users->items[i].rule->proof == RULES_UNIX && users->items[i].account == account)
			return &users->items[i];
	return NULL;
}

static struct user *find_name(struct users *users, struct slice name)
{
	for (size_t i = 0; i < users->count; i++)
		if (slice_equal(slice_of(users->items[i].rule->name), name))
			return &users->items[i];
	return NULL;
}

/* Any user with a password, or NULL. */
static struct user *find_any_password(struct users *users)
{
	for (size_t i = 0; i < users->count; i++)
		if (users->items[i].rule->proof == RULES_PASSWORD)
			return &users->items[i];
	return NULL;
}

/* Returns the user of the token, or NULL. The user must have that name, unless it is empty. */
static struct user *find_token(struct users *users, struct slice name, struct slice token)
{
	unsigned char digest[TOKEN_DIGEST_MAX];

	token_digest(token, digest);
	for (size_t i = 0; i < users->count; i++) {
		struct user *user = &users->items[i];

		if (user->rule->proof == RULES_TOKEN &&
		    CRYPTO_memcmp(digest, user->digest, sizeof digest) == 0 &&
		    (name.len == 0 || slice_equal(slice_of(user->rule->name), name)))
			return user;
	}
	return NULL;
}

static bool is_verified(const struct user *user, struct hash_key fingerprint)
{
	const struct hash_key verified = {
	    atomic_load_explicit(&user->verified_login[0], memory_order_relaxed),
	    atomic_load_explicit(&user->verified_login[1], memory_order_relaxed)};

	return hash_key_equal(verified, fingerprint);
}

/* The name decides whose password is meant. A token names its user itself. See users.h. */
enum users_login users_check_login(struct users *users, const struct request_login *login,
                                   struct hash_key fingerprint, struct user **user,
                                   bool *has_password)
{
	bool nameless = is_nameless(login); /* the secret may be a password of `default`, or a token */
	struct user *named = find_name(users, nameless ? DEFAULT_NAME : login->user);

	*user = named;
	*has_password = named && named->rule->proof == RULES_PASSWORD;
	if (*has_password && is_verified(named, fingerprint))
		return USERS_KNOWN;
	if (!*has_password || nameless) {
		*user = find_token(users, nameless ? SLICE("") : login->user, login->secret);
		if (*user)
			return USERS_KNOWN;
	}
	if (*has_password)
		*user = named;
	else if (!nameless) /* computes some hash, so that the time does not disclose the name */
		*user = find_any_password(users);
	/* libcrypt would end the password at its first NUL. */
	return *user && !memchr(login->secret.data, '\0', login->secret.len) ? USERS_UNVERIFIED
	                                                                     : USERS_WRONG;
}

void user_remember(struct user *user, struct hash_key fingerprint)
{
	atomic_store_explicit(&user->verified_login[0], fingerprint.k0, memory_order_relaxed);
	atomic_store_explicit(&user->verified_login[1], fingerprint.k1, memory_order_relaxed);
}

int user_check(const struct user *user, enum request_class class, struct weir_error *error)
{
	static const char *const words[] = {
	    [REQUEST_FREE] = "",
	    [REQUEST_ASK] = "ask",
	    [REQUEST_CHANGE] = "change",
	    [REQUEST_ADMIN] = "admin",
	};
	static const unsigned needed[] = {
	    [REQUEST_FREE] = 0,
	    [REQUEST_ASK] = RULES_MAY_ASK,
	    [REQUEST_CHANGE] = RULES_MAY_CHANGE,
	    [REQUEST_ADMIN] = RULES_MAY_ADMIN,
	};

	if (class == REQUEST_FREE)
		return WEIR_OK;
	if (!user)
		return error_set(
		    error, WEIR_EAUTH,
		    "expected the login of a user (a token, or a name and a password), found none");
	if (!(user->rule->may & needed[class]))
		return error_set(error, WEIR_EPERM, "expected a user who may %s, found '%s'", words[class],
		                 user->rule->name);
	return WEIR_OK;
}
