/* store_kind.h: finds the kind of store that a text names: memory, a file or a Redis. */
#ifndef RULES_STORE_KIND_H
#define RULES_STORE_KIND_H

#include <weir/weir.h>

enum rules_store_kind {
	RULES_MEMORY, /* memory */
	RULES_FILE,   /* file:PATH */
	RULES_REDIS,  /* a URL of Redis, which nobody has checked: it begins with redis */
};

#define RULES_FILE_PREFIX "file:"

/**
 * Reads the kind of store that `text` names. Errors: EINVAL with "expected …, found …", which never
 * repeats a password.
 */
int rules_store_kind_read(const char *text, enum rules_store_kind *out, struct weir_error *error);

#endif
