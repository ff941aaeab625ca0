/* pattern.c: matches names with patterns in which * stands for any text. */
#include "rules/match/pattern.h"

#include <stddef.h>

/* A star that was tried with too little text is tried with one byte more: no earlier one is. */
bool pattern_matches(const char *pattern, const char *name)
{
	const char *star = NULL, *tried = NULL;

	for (;;) {
		if (*pattern == '*') {
			star = ++pattern;
			tried = name;
		} else if (*pattern == *name) {
			if (*name == '\0')
				return true;
			pattern++;
			name++;
		} else if (star && *tried != '\0') {
			pattern = star;
			name = ++tried;
		} else {
			return false;
		}
	}
}
