/* misspelling.h: finds the names that the writer of an unknown name may have meant. */
#ifndef BASE_TEXT_MISSPELLING_H
#define BASE_TEXT_MISSPELLING_H

#include <stdbool.h>

#include "base/slice.h"

/**
 * Whether one name is probably a misspelling of the other: a letter added, missing, wrong, or two
 * letters swapped; in names of five letters or more, two of these. The case of letters does not
 * matter. Equal names are not misspellings.
 */
bool is_misspelling(struct slice a, struct slice b);

#endif
