/* reserved.h: checks that a rule's `result` uses no reserved names, in every language. */
#ifndef READERS_RESERVED_H
#define READERS_RESERVED_H

#include "readers/phrase.h"

#define RESULT_MAX 4096 /* bytes of JSON: they go out with every denial */

#define RESERVED_EXPECTED "expected a name that the answer itself does not use (%s), found %s"

/** Whether the answer has a field of that name; some readers of JSON do not tell case. */
bool reserved_field(struct slice name);
/** All of them, for RESERVED_EXPECTED. */
struct phrase reserved_fields(void);

#endif
