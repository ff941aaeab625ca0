/*
 * password.h: proofs that users give, and what of them a configuration keeps.
 *
 * A password is kept as a hash that takes much memory to compute (yescrypt, of the system's
 * libcrypt), because people choose passwords that can be guessed. A token is random, so its
 * SHA-256 is enough.
 *
 * All functions are thread-safe.
 */
#ifndef SERVER_PASSWORD_H
#define SERVER_PASSWORD_H

#include <stdbool.h>

#include "base/slice.h"
#include "base/text/base64.h"

#define PASSWORD_MAX      511 /* bytes; libcrypt takes no more */
#define PASSWORD_HASH_MAX 384 /* with its NUL */

#define TOKEN_BYTES      32 /* random */
#define TOKEN_PREFIX     "weir_" /* so that a program that looks for secrets in files knows them */
#define TOKEN_TEXT_MAX   (sizeof TOKEN_PREFIX + BASE64_LEN(TOKEN_BYTES))
#define TOKEN_DIGEST_MAX 32 /* bytes */

/** The hash of a new salt. 0, WEIR_EIO (no random numbers), ENOMEM, ELONG. */
int password_hash(const char *password, char out[PASSWORD_HASH_MAX]);

/**
 * Whether it is the password that `hash` was made of: 1 or 0, or WEIR_ENOMEM. A hash that libcrypt
 * does not take is of no password. Takes some
 * 20 ms and 16 MiB, or as much as the parameters in `hash` say.
 */
int password_check(const char *hash, const char *password);

/** Whether libcrypt can compute the hash: 0, WEIR_EINVAL (by its parameters it can't), ENOMEM. As slow. */
int password_try(const char *hash);

/** A new token, with its NUL. 0 or WEIR_EIO. */
int token_make(char out[TOKEN_TEXT_MAX]);

/** SHA-256 of the token's text. */
void token_digest(struct slice token, unsigned char out[TOKEN_DIGEST_MAX]);
/** Reads what a configuration keeps of a token: 64 hexadecimal digits. */
bool token_read_digest(const char *text, unsigned char out[TOKEN_DIGEST_MAX]);

#endif
