/* word.h: the words of an enumeration, as files and listings have them. */
#ifndef BASE_WORD_H
#define BASE_WORD_H

struct word {
	const char *name; /* NULL in the last of a list */
	unsigned value;
};

#endif
