/*
 * password.h: makes and checks the hashes of passwords and tokens that a configuration has.
 *
 * A password is stored as a hash that takes much memory to compute (yescrypt, of the system's
 * libcrypt), because people choose passwords that can be guessed. A token is random, so its SHA-256
 * is enough.
 *
 * All functions are thread-safe.
 */
#ifndef SERVER_PASSWORD_H
#define SERVER_PASSWORD_H

#include <stdbool.h>

#include "base/slice.h"
#include "base/text/base64.h"

#define PASSWORD_MAX      511 /* bytes; the most that libcrypt takes */
#define PASSWORD_HASH_MAX 384 /* bytes, with a NUL */

#define TOKEN_BYTES      32      /* random bytes */
#define TOKEN_PREFIX     "weir_" /* lets programs that search files for secrets find tokens */
#define TOKEN_TEXT_MAX   (sizeof TOKEN_PREFIX + BASE64_LEN(TOKEN_BYTES))
#define TOKEN_DIGEST_MAX 32 /* bytes */

/** Makes a hash with a new salt. Returns 0, WEIR_EIO (no random numbers), ENOMEM or ELONG. */
int password_hash(const char *password, char out[PASSWORD_HASH_MAX]);

/**
 * Returns 1 if `hash` was made of the password, 0 if not or if libcrypt refuses the hash, or
 * WEIR_ENOMEM. Takes about 20 ms and 16 MiB, or as much as the parameters in `hash` require.
 */
int password_check(const char *hash, const char *password);

/**
 * Whether libcrypt can compute the hash: 0, WEIR_EINVAL (it refuses the parameters) or ENOMEM. As
 * slow as password_check.
 */
int password_try(const char *hash);

/** Makes a new token, with a NUL. Returns 0 or WEIR_EIO. */
int token_make(char out[TOKEN_TEXT_MAX]);

/** Computes SHA-256 of the token's text. */
void token_digest(struct slice token, unsigned char out[TOKEN_DIGEST_MAX]);
/** Reads the digest of a token from a configuration: 64 hexadecimal digits. */
bool token_read_digest(const char *text, unsigned char out[TOKEN_DIGEST_MAX]);

#endif
