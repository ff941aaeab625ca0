/* store.h: the values of `store`, of a file, a flag or a limit. */
#ifndef RULES_STORE_H
#define RULES_STORE_H

#include <weir/weir.h>

enum rules_place {
	RULES_MEMORY, /* memory */
	RULES_FILE,   /* file:PATH */
	RULES_REDIS,  /* a URL of Redis, which nobody has checked: it begins with redis */
};

#define RULES_FILE_PREFIX "file:"

/**
 * Reads the kind of store that `text` names. Errors: EINVAL with "expected …, found …", which never
 * repeats a password.
 */
int rules_place_read(const char *text, enum rules_place *out, struct weir_error *error);

#endif
