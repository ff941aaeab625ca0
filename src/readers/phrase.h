/* phrase.h: formats words of a file for a message. */
#ifndef READERS_PHRASE_H
#define READERS_PHRASE_H

#include "base/slice.h"

struct phrase {
	char text[128];
	size_t len;
	bool full;
};

/** Appends `, word`, or once an ellipsis when it is full. */
void phrase_add(struct phrase *phrase, struct slice word);
/** `text` in quotes, on one line and cut to a few words. */
struct phrase phrase_quote(struct slice text);

#endif
