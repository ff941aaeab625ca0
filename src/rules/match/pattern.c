/* pattern.c: matches names with patterns in which * stands for any text. */
#include "rules/match/pattern.h"

#include <stddef.h>

/*
 * After a mismatch the last star takes one byte more of the name, and the pattern behind it is
 * tried again. Earlier stars never need another try.
 */
bool pattern_matches(const char *pattern, const char *name)
{
	const char *behind_star = NULL, *star_end = NULL; /* in the pattern; in the name */

	for (;;) {
		if (*pattern == '*') {
			behind_star = ++pattern;
			star_end = name;
		} else if (*pattern == *name) {
			if (*name == '\0')
				return true;
			pattern++;
			name++;
		} else if (behind_star && *star_end != '\0') {
			pattern = behind_star;
			name = ++star_end;
		} else {
			return false;
		}
	}
}
