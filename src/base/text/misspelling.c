/*
 * misspelling.c: decides by their edit distance whether one name is probably a misspelling of
 * another, for messages such as "did you mean …".
 */
#include "base/text/misspelling.h"

#include <ctype.h>
#include <stdint.h>
#include <string.h>

#include "base/number.h"

#define LEN_MAX 32 /* of a name; longer ones are not compared */

static int lower(struct slice text, size_t i)
{
	return tolower((unsigned char)text.data[i]);
}

/*
 * Returns the least number of edits that turn `a` into `b`, if no character is edited twice
 * (optimal string alignment). Row i, column j of the table has the distance of the first i
 * characters of `a` and the first j of `b`.
 */
static unsigned distance(struct slice a, struct slice b)
{
	uint8_t rows[3][LEN_MAX + 1]; /* row i is rows[i % 3]: only the last three are needed */

	for (size_t j = 0; j <= b.len; j++)
		rows[0][j] = (uint8_t)j;
	for (size_t i = 1; i <= a.len; i++) {
		uint8_t *row = rows[i % 3];
		const uint8_t *above = rows[(i - 1) % 3], *two_above = rows[(i - 2) % 3];

		row[0] = (uint8_t)i;
		for (size_t j = 1; j <= b.len; j++) {
			unsigned differs = lower(a, i - 1) != lower(b, j - 1);
			bool is_swap = i > 1 && j > 1 && lower(a, i - 1) == lower(b, j - 2) &&
			               lower(a, i - 2) == lower(b, j - 1);
			uint64_t least = above[j - 1] + differs; /* by replacing a character, ... */

			least = u64_min(least, above[j] + 1u);   /* deleting one of `a`, ... */
			least = u64_min(least, row[j - 1] + 1u); /* or inserting one of `b` */
			if (is_swap)
				least = u64_min(least, two_above[j - 2] + differs);
			row[j] = (uint8_t)least;
		}
	}
	return rows[a.len % 3][b.len];
}

/* Names of two to four characters may have one edit, longer ones two. Equal names are none. */
bool is_misspelling(struct slice a, struct slice b)
{
	size_t longer = u64_max(a.len, b.len), shorter = u64_min(a.len, b.len);

	if (shorter < 2 || longer > LEN_MAX || longer - shorter > 2 || slice_equal(a, b))
		return false;
	return distance(a, b) <= (shorter < 5 ? 1 : 2);
}
