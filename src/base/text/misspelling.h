/* misspelling.h: finds the names that the writer of an unknown name may have meant. */
#ifndef BASE_TEXT_MISSPELLING_H
#define BASE_TEXT_MISSPELLING_H

#include <stdbool.h>

#include "base/slice.h"

/**
 * Whether one is a slip of the other: a letter more, less, wrong, or two that changed places, in
 * any case; of names with five letters or more, two of these. Equal names are no slips.
 */
bool is_misspelling(struct slice a, struct slice b);

#endif
