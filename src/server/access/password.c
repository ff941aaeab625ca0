/*
 * password.c: makes and checks the hashes of passwords (yescrypt, by libcrypt) and of tokens, which
 * are random and need no more than SHA-256.
 */
#include "server/access/password.h"

#include <crypt.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/crypto.h>
#include <openssl/sha.h>
#include <weir/weir.h>

#include "base/number.h"
#include "base/os/os.h"

#define HASH_METHOD "$y$" /* yescrypt */

_Static_assert(PASSWORD_HASH_MAX >= CRYPT_OUTPUT_SIZE, "any hash fits");
_Static_assert(PASSWORD_MAX < CRYPT_MAX_PASSPHRASE_SIZE, "libcrypt takes it");

/*
 * Computes the hash with the salt and the parameters of `setting`. Returns 0, WEIR_ENOMEM, or
 * WEIR_EINVAL for a setting that libcrypt refuses.
 */
static int compute_hash(const char *password, const char *setting, char out[PASSWORD_HASH_MAX])
{
	struct crypt_data *data = calloc(1, sizeof *data);
	const char *hash;
	int status = WEIR_ENOMEM;

	if (!data)
		return WEIR_ENOMEM;
	errno = 0;
	hash = crypt_r(password, setting, data);
	if (hash && *hash != '*') {
		strcpy(out, hash);
		status = WEIR_OK;
	} else if (errno == EINVAL) {
		status = WEIR_EINVAL;
	}
	explicit_bzero(data, sizeof *data);
	free(data);
	return status;
}

int password_hash(const char *password, char out[PASSWORD_HASH_MAX])
{
	char random[32], salt[CRYPT_GENSALT_OUTPUT_SIZE];

	if (strlen(password) > PASSWORD_MAX)
		return WEIR_ELONG;
	if (os_random(random, sizeof random) != WEIR_OK ||
	    !crypt_gensalt_rn(HASH_METHOD, 0, random, sizeof random, salt, sizeof salt))
		return WEIR_EIO;
	return compute_hash(password, salt, out);
}

/* Returns 1 if they match, 0 if not or if libcrypt refuses the hash, or a negative error. */
int password_check(const char *hash, const char *password)
{
	char computed[PASSWORD_HASH_MAX];
	size_t len = strlen(hash);
	int status;

	if (strlen(password) > PASSWORD_MAX)
		return 0;
	status = compute_hash(password, hash, computed);
	if (status != WEIR_OK)
		return status == WEIR_EINVAL ? 0 : status;
	return strlen(computed) == len && CRYPTO_memcmp(computed, hash, len) == 0;
}

/* Without a password to check: whether libcrypt accepts the hash's parameters. */
int password_try(const char *hash)
{
	char computed[PASSWORD_HASH_MAX];

	return compute_hash("", hash, computed);
}

int token_make(char out[TOKEN_TEXT_MAX])
{
	unsigned char random[TOKEN_BYTES];
	size_t len;

	if (os_random(random, sizeof random) != WEIR_OK)
		return WEIR_EIO;
	memcpy(out, TOKEN_PREFIX, sizeof TOKEN_PREFIX - 1);
	out += sizeof TOKEN_PREFIX - 1;
	len = base64_url_encode(random, sizeof random, out);
	out[len] = '\0';
	explicit_bzero(random, sizeof random);
	return WEIR_OK;
}

void token_digest(struct slice token, unsigned char out[TOKEN_DIGEST_MAX])
{
	SHA256((const unsigned char *)token.data, token.len, out);
}

bool token_read_digest(const char *text, unsigned char out[TOKEN_DIGEST_MAX])
{
	if (strlen(text) != 2 * TOKEN_DIGEST_MAX)
		return false;
	for (size_t i = 0; i < TOKEN_DIGEST_MAX; i++) {
		int high = hex_digit(text[2 * i]), low = hex_digit(text[2 * i + 1]);

		if (high < 0 || low < 0)
			return false;
		out[i] = (unsigned char)(high << 4 | low);
	}
	return true;
}
