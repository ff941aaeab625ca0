/* word.h: maps the words that users write in files to the values of an enumeration, and back. */
#ifndef BASE_TEXT_WORD_H
#define BASE_TEXT_WORD_H

#include <stdbool.h>

/* One entry of a list of words. */
struct word {
	const char *name; /* NULL ends a list */
	unsigned value;
	bool is_foreign; /* another program's name of the value, which errors explain; these are last */
};

#endif
