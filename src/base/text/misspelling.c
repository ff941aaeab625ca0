/* misspelling.c: compares two names by their edit distance. */
#include "base/text/misspelling.h"

#include <ctype.h>
#include <stdint.h>
#include <string.h>

#include "base/number.h"

#define LEN_MAX 32

static int lower(struct slice text, size_t i)
{
	return tolower((unsigned char)text.data[i]);
}

/* Optimal string alignment: edits that turn one into the other, none within another. */
static unsigned distance(struct slice a, struct slice b)
{
	uint8_t rows[3][LEN_MAX + 1]; /* the last three rows of the table, in turn */

	for (size_t j = 0; j <= b.len; j++)
		rows[0][j] = (uint8_t)j;
	for (size_t i = 1; i <= a.len; i++) {
		uint8_t *row = rows[i % 3];
		const uint8_t *last = rows[(i - 1) % 3], *before = rows[(i - 2) % 3];

		row[0] = (uint8_t)i;
		for (size_t j = 1; j <= b.len; j++) {
			unsigned wrong = lower(a, i - 1) != lower(b, j - 1);
			unsigned least = last[j - 1] + wrong;

			least = least < last[j] + 1u ? least : last[j] + 1u;
			least = least < row[j - 1] + 1u ? least : row[j - 1] + 1u;
			if (i > 1 && j > 1 && lower(a, i - 1) == lower(b, j - 2) &&
			    lower(a, i - 2) == lower(b, j - 1) && before[j - 2] + wrong < least)
				least = before[j - 2] + wrong;
			row[j] = (uint8_t)least;
		}
	}
	return rows[a.len % 3][b.len];
}

bool is_misspelling(struct slice a, struct slice b)
{
	size_t longer = a.len > b.len ? a.len : b.len, shorter = a.len + b.len - longer;

	if (shorter < 2 || longer > LEN_MAX || longer - shorter > 2 ||
	    (a.len == b.len && memcmp(a.data, b.data, a.len) == 0))
		return false;
	return distance(a, b) <= (shorter < 5 ? 1 : 2);
}
