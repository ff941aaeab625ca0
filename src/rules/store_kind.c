/*
 * store_kind.c: finds the kind of store that a text names: the server's memory, a file that
 * processes share, or a Redis.
 */
#include "rules/store_kind.h"

#include <string.h>

#include "base/error.h"
#include "base/slice.h"
#include "base/text/store_url.h"

/* Returns EINVAL. The message redacts the text, which may have a password. */
static int refuse_store(const char *text, struct weir_error *error)
{
	char found[STORE_URL_SHOWN_MAX];

	store_url_redact(text, found);
	return error_set(error, WEIR_EINVAL,
	                 "expected memory, file:PATH or a URL such as redis://127.0.0.1:6379/0, found "
	                 "'%s'",
	                 found);
}

int rules_store_kind_read(const char *text, enum rules_store_kind *out, struct weir_error *error)
{
	struct slice path = slice_of(text);

	for (const char *c = text; *c; c++)
		if ((unsigned char)*c < 0x20 || *c == 0x7f)
			return error_set(error, WEIR_EINVAL,
			                 "expected a store without control characters, "
			                 "found one at character %zu",
			                 (size_t)(c - text) + 1);
	*out = RULES_MEMORY;
	if (strcmp(text, "memory") == 0)
		return WEIR_OK;
	*out = RULES_FILE;
	if (slice_skip(&path, SLICE(RULES_FILE_PREFIX)) && path.len > 0)
		return store_url_is_likely(path.data) ? refuse_store(text, error) : WEIR_OK;
	*out = RULES_REDIS;
	return strncmp(text, "redis", 5) == 0 || strncmp(text, "valkey", 6) == 0
	           ? WEIR_OK
	           : refuse_store(text, error);
}
