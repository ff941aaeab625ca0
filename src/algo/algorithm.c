/* algorithm.c: the list of algorithms, as meson.build has it. */
#include "algo/algorithm.h"

#include "algorithm_list.h" /* ALGORITHMS(X): X(name, NAME) for each */

#define DECLARE(name, NAME) extern const struct algorithm algorithm_##name;
ALGORITHMS(DECLARE)

#define BY_VALUE(name, NAME) [WEIR_##NAME] = &algorithm_##name,
static const struct algorithm *const by_value[] = {ALGORITHMS(BY_VALUE)};

#define WORD(name, NAME) [WEIR_##NAME] = {#name, WEIR_##NAME},
static const struct word words[sizeof by_value / sizeof *by_value + 1] = {ALGORITHMS(WORD)};

#define IN_ORDER(name, NAME) &algorithm_##name,
static const struct algorithm *const in_order[] = {ALGORITHMS(IN_ORDER)};

_Static_assert(sizeof by_value == sizeof in_order, "one algorithm for each value");

const struct algorithm *algorithm_of(enum weir_algorithm id)
{
	return (unsigned)id < sizeof by_value / sizeof *by_value ? by_value[id] : NULL;
}

const struct word *algorithm_words(void)
{
	return words;
}

const struct algorithm *algorithm_listed(size_t index)
{
	return index < sizeof in_order / sizeof *in_order ? in_order[index] : NULL;
}
