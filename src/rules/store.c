#include "rules/store.h"

#include <string.h>

#include "base/error.h"
#include "base/slice.h"

#define FOUND_MAX 80 /* bytes of the text that a message repeats */

/* User and password of a URL stand before the last @, and some write them behind a question mark.
 */
static int unknown(const char *text, struct weir_error *error)
{
	const char *host = strrchr(text, '@');
	struct slice rest = slice_of(host ? host : text);
	struct slice found = slice_cut(&rest, '?');

	return error_set(error, WEIR_EINVAL,
	                 "expected memory, file:PATH or a URL such as redis://127.0.0.1:6379/0, found "
	                 "'%s%.*s'",
	                 host ? "…" : "", (int)(found.len < FOUND_MAX ? found.len : FOUND_MAX),
	                 found.data);
}

int rules_place_read(const char *text, enum rules_place *out, struct weir_error *error)
{
	struct slice path = slice_of(text);

	for (const char *c = text; *c; c++)
		if ((unsigned char)*c < 0x20 || *c == 0x7f)
			return error_set(error, WEIR_EINVAL,
			                 "expected a store without control characters, "
			                 "found character %zu to be one",
			                 (size_t)(c - text) + 1);
	*out = RULES_MEMORY;
	if (strcmp(text, "memory") == 0)
		return WEIR_OK;
	*out = RULES_FILE;
	if (slice_skip(&path, SLICE(RULES_FILE_PREFIX)) && path.len > 0)
		return WEIR_OK;
	*out = RULES_REDIS;
	return strncmp(text, "redis", 5) == 0 ? WEIR_OK : unknown(text, error);
}
