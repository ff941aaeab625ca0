/*
 * algorithm.c: holds the list of algorithms, and uses their descriptions to check the options of a
 * limit and to fill in defaults.
 *
 * Some algorithms have *own options*, a struct of their own that the options of the limit point to.
 */
#include "algo/algorithm.h"

#include <string.h>

#include "algorithm_list.h" /* ALGORITHMS(X): X(name, NAME) for each */
#include "base/error.h"

#define DECLARE(name, NAME) extern const struct algorithm algorithm_##name;
ALGORITHMS(DECLARE)

#define BY_VALUE(name, NAME) [WEIR_ALGORITHM_##NAME] = &algorithm_##name,
static const struct algorithm *const by_value[] = {ALGORITHMS(BY_VALUE)};

#define ALGORITHM_COUNT (sizeof by_value / sizeof *by_value)

/* The names of the algorithms, and then names that other programs have for them. */
#define WORD(name, NAME) [WEIR_ALGORITHM_##NAME] = {#name, WEIR_ALGORITHM_##NAME},
static const struct word words[] = {
    ALGORITHMS(WORD)[ALGORITHM_COUNT] = {"gcra", WEIR_ALGORITHM_TOKEN_BUCKET, true},
    [ALGORITHM_COUNT + 1] = {"meter", WEIR_ALGORITHM_LEAKY_BUCKET, true},
    [ALGORITHM_COUNT + 2] = {"tumbling", WEIR_ALGORITHM_FIXED_WINDOW, true},
    {0},
};

#define IN_ORDER(name, NAME) &algorithm_##name,
static const struct algorithm *const in_order[] = {ALGORITHMS(IN_ORDER)};

_Static_assert(sizeof by_value == sizeof in_order, "one algorithm for each value");

const struct algorithm *algorithm_of(enum weir_algorithm id)
{
	return (unsigned)id < ALGORITHM_COUNT ? by_value[id] : NULL;
}

const struct word *algorithm_words(void)
{
	return words;
}

const struct algorithm *algorithm_listed(size_t index)
{
	return index < ALGORITHM_COUNT ? in_order[index] : NULL;
}

/* Returns the algorithm's own parameter for the field of another algorithm's parameter, or NULL. */
static const struct algo_parameter *parameter_of_field(const struct algorithm *algorithm,
                                                       const struct algo_parameter *parameter)
{
	for (const struct algo_parameter *own = algorithm->parameters; own->name; own++)
		if (own->offset == parameter->offset && own->own == parameter->own)
			return own;
	return NULL;
}

/* Writes an error that names the algorithms that have the parameter. */
static int refuse_parameter(const struct algo_parameter *parameter, const struct algorithm *found,
                            struct weir_error *error)
{
	const struct algorithm *algorithm;
	char names[PARAMETER_NAMES_MAX] = "";

	for (unsigned i = 0; (algorithm = algorithm_of(i)); i++)
		if (parameter_of_field(algorithm, parameter))
			parameter_add_name(names, algorithm->name);
	return error_set(error, WEIR_EINVAL, "%s: expected with %s only, found with %s",
	                 parameter->name, names, found->name);
}

/* Refuses parameters of other algorithms: an ignored one would look as if it had an effect. */
static int check_foreign(const struct algorithm *algorithm,
                         const struct weir_limit_options *options, struct weir_error *error)
{
	const struct algorithm *other;

	for (unsigned i = 0; (other = algorithm_of(i)); i++) {
		if (other->own && other != algorithm && parameter_own(other->own, options))
			return error_set(error, WEIR_EINVAL, "%s: expected with %s only, found with %s",
			                 other->name, other->name, algorithm->name);
		for (const struct algo_parameter *parameter = other->parameters; parameter->name;
		     parameter++)
			if (!parameter->own && parameter_is_given(parameter, options) &&
			    !parameter_of_field(algorithm, parameter))
				return refuse_parameter(parameter, algorithm, error);
	}
	return WEIR_OK;
}

/* Returns an error for the first option that the algorithm does not have or allow. */
int algorithm_check(const struct weir_limit_options *options, struct weir_error *error)
{
	const struct algorithm *algorithm = algorithm_of(options->algorithm);
	int status;

	if (!algorithm)
		return error_set(error, WEIR_EINVAL, "algorithm: expected a known one, found %d",
		                 (int)options->algorithm);
	status = check_foreign(algorithm, options, error);
	for (const struct algo_parameter *parameter = algorithm->parameters;
	     parameter->name && status == WEIR_OK; parameter++)
		status = parameter_check(parameter, options, error);
	return status;
}

/* Returns the parameter that the text begins with, before a colon, or NULL. */
static const struct algo_parameter *parameter_of_message(const struct algorithm *algorithm,
                                                         const char *message)
{
	for (const struct algo_parameter *parameter = algorithm->parameters; parameter->name;
	     parameter++) {
		size_t len = strlen(parameter->name);

		if (strncmp(message, parameter->name, len) == 0 && message[len] == ':')
			return parameter;
	}
	return NULL;
}

/* A message can also be about a parameter of another algorithm, which this one refuses. */
void algorithm_name_field(const struct weir_limit_options *options, struct weir_error *error)
{
	const struct algorithm *algorithm = algorithm_of(options->algorithm);
	const struct algo_parameter *parameter = NULL;
	char message[sizeof error->message];

	if (algorithm)
		parameter = parameter_of_message(algorithm, error->message);
	for (unsigned i = 0; !parameter && (algorithm = algorithm_of(i)); i++)
		parameter = parameter_of_message(algorithm, error->message);
	if (!parameter)
		return;
	strcpy(message, error->message + strlen(parameter->name));
	error_set(error, error->status, "%s%s", parameter->field, message);
}

/*
 * Fills in own options from the preset (a set of values under one name), unless `given` has a value
 * or refuses the parameter.
 */
static void resolve_preset(const struct algorithm *algorithm,
                           const struct weir_limit_options *given,
                           struct weir_limit_options *options)
{
	struct weir_limit_options preset = {0};

	parameter_set_own(algorithm->own, algorithm->preset(options), &preset);
	for (const struct algo_parameter *parameter = algorithm->parameters; parameter->name;
	     parameter++)
		if (parameter->own && !parameter_is_given(parameter, given) &&
		    parameter_effect_in(parameter, given) != ALGO_REFUSED)
			memcpy(parameter_writable(parameter, options), parameter_field(parameter, &preset),
			       parameter->size);
}

/* Completes the options. The algorithm's own options are copied to `own`, and completed there. */
void algorithm_resolve(struct weir_limit_options *options, union algo_own *own)
{
	const struct algorithm *algorithm = algorithm_of(options->algorithm);
	const struct weir_limit_options given = *options;

	*own = (union algo_own){0};
	if (algorithm->own && parameter_own(algorithm->own, options))
		memcpy(own, parameter_own(algorithm->own, options), algorithm->own_size);
	if (algorithm->own)
		parameter_set_own(algorithm->own, own, options);
	if (algorithm->preset)
		resolve_preset(algorithm, &given, options);
	/* Derived defaults come last, since they depend on the others. */
	for (int derived = 0; derived <= 1; derived++)
		for (const struct algo_parameter *parameter = algorithm->parameters; parameter->name;
		     parameter++)
			if ((parameter->default_value == ALGO_DEFAULT_DERIVED) == derived)
				parameter_resolve(parameter, options);
}
