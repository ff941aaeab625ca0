/* secret_name.c: recognises attributes whose values may be secrets, by their names. */
#include "base/text/secret_name.h"

#include <string.h>

#include "base/text/forwarded.h"

#define COMPARED_MAX 256 /* bytes of a name that are compared, without signs */

/* Without signs: `api_key`, `X-Api-Key` and `apiKey` have the same letters. */
static const char *const words[] = {
    "accesskey", "apikey", "authorization", "cookie", "credential", "jwt",       "passphrase",
    "password",  "passwd", "privatekey",    "secret", "session",    "signature", "token",
};

/* Copies the letters and digits of the name, in lower case. */
static void copy_letters(const char *name, char out[COMPARED_MAX])
{
	size_t n = 0;

	for (; *name && n + 1 < COMPARED_MAX; name++) {
		char c = *name >= 'A' && *name <= 'Z' ? (char)(*name - 'A' + 'a') : *name;

		if ((c >= 'a' && c <= 'z') || (c >= '0' && c <= '9'))
			out[n++] = c;
	}
	out[n] = '\0';
}

bool secret_name_is(const char *attribute)
{
	struct forwarded_attribute forwarded;
	char letters[COMPARED_MAX];

	if (forwarded_parse(attribute, &forwarded))
		return true;
	copy_letters(attribute, letters);
	for (size_t i = 0; i < sizeof words / sizeof *words; i++)
		if (strstr(letters, words[i]))
			return true;
	return false;
}
