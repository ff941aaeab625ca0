/* word.h: defines the words that stand for an enumeration in files and listings. */
#ifndef BASE_TEXT_WORD_H
#define BASE_TEXT_WORD_H

struct word {
	const char *name; /* NULL ends a list */
	unsigned value;
};

#endif
