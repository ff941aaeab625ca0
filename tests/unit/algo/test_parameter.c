/* Tests the descriptions of the parameters of all algorithms, and the checks by them. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "algo/algo.h"

/* Belongs to the options that `least` made last. */
static union algo_own own_options;

/* Options with a value for each required parameter, and no others. */
static struct weir_limit_options least(const struct algorithm *algorithm)
{
	struct weir_limit_options options = {.algorithm = algorithm->id};

	own_options = (union algo_own){0};
	if (algorithm->own)
		parameter_set_own(algorithm->own, &own_options, &options);
	for (const struct algo_parameter *row = algorithm->parameters; row->name; row++)
		if (row->required && row->type == ALGO_NUMBER)
			parameter_set(row, 1, &options);
		else if (row->required && row->type != ALGO_DECIMAL)
			options.rate.count = 1;
	return options;
}

/* Writes some value to the field of a parameter, perhaps one out of range. */
static void give(const struct algo_parameter *row, struct weir_limit_options *options)
{
	if (row->type == ALGO_DECIMAL)
		*(double *)parameter_writable(row, options) = 0.5;
	else if (row->type == ALGO_TEXT)
		options->timezone = "UTC";
	else
		*(unsigned char *)parameter_writable(row, options) = 1;
}

static const struct algo_parameter *own(const struct algorithm *algorithm,
                                        const struct algo_parameter *other)
{
	for (const struct algo_parameter *row = algorithm->parameters; row->name; row++)
		if (row->offset == other->offset && row->own == other->own)
			return row;
	return NULL;
}

/* The name in messages about a field that has several names. */
static const char *first_name(const struct algo_parameter *other)
{
	const struct algo_parameter *row = NULL;

	for (unsigned i = 0; !row; i++)
		row = own(algorithm_of(i), other);
	return row->name;
}

static void assert_status(const struct weir_limit_options *options, int expected, const char *about)
{
	struct algo_limit limit;
	struct weir_error error = {0};
	int status = algo_limit_init(&limit, options, &error);

	if (status == WEIR_OK)
		algo_limit_free(&limit);
	if (status != expected || (status != WEIR_OK && strncmp(error.message, about, strlen(about)) != 0))
		fail_msg("%s: %s: wanted %d, got %d %s", algorithm_of(options->algorithm)->name, about,
		         expected, status, error.message);
}

static void every_value_of_the_enumeration_has_its_description(void **state)
{
	const struct word *words = algorithm_words();
	unsigned n = 0;

	(void)state;
	for (; algorithm_of(n); n++) {
		assert_int_equal(algorithm_of(n)->id, n);
		assert_string_equal(words[n].name, algorithm_of(n)->name);
		assert_non_null(algorithm_of(n)->init);
		assert_int_equal(algorithm_of(n)->step == NULL,
		                 algorithm_of(n)->record != ALGO_RECORD_NONE);
		assert_int_equal(algorithm_of(n)->layout == NULL, algorithm_of(n)->convert == NULL);
		assert_non_null(algorithm_listed(n));
	}
	assert_null(algorithm_listed(n));
	for (; words[n].name; n++) { /* names that other programs have for some of them */
		assert_true(words[n].is_foreign);
		assert_non_null(algorithm_of(words[n].value));
	}
}

static void a_step_changes_nothing_for_an_operation_that_it_does_not_know(void **unused)
{
	const struct moment at = {UINT64_C(1700000000) * NS_PER_S, UINT64_C(1700000000) * NS_PER_S};

	(void)unused;
	for (unsigned i = 0; algorithm_of(i); i++) {
		struct weir_limit_options options = least(algorithm_of(i));
		struct algo_state state = {0, 0}, before;
		struct algo_call call = {.op = ALGO_ACQUIRE, .cost = 1};
		struct algo_decision out;
		struct algo_limit limit;
		struct algo_time time;

		if (!algorithm_of(i)->step)
			continue;
		assert_int_equal(algo_limit_init(&limit, &options, NULL), WEIR_OK);
		time = algo_time_at(&limit, at);
		algo_step(&limit, &call, &time, &state, &out);
		before = state;
		call = (struct algo_call){.op = ALGO_FORCE};
		assert_false(algo_step(&limit, &call, &time, &state, &out));
		assert_int_equal(state.until_ns, before.until_ns);
		assert_int_equal(state.word, before.word);
		algo_limit_free(&limit);
	}
}

static void required_parameters_are_sufficient_and_necessary(void **state)
{
	(void)state;
	for (unsigned i = 0; algorithm_of(i); i++) {
		struct weir_limit_options options = least(algorithm_of(i));

		assert_status(&options, WEIR_OK, "");
		for (const struct algo_parameter *row = algorithm_of(i)->parameters; row->name; row++) {
			if (!row->required || row->type == ALGO_DECIMAL)
				continue;
			memset(parameter_writable(row, &options), 0, row->size);
			assert_status(&options, WEIR_ERANGE, row->name);
			options = least(algorithm_of(i));
		}
	}
}

static void parameters_of_other_algorithms_are_refused_by_name(void **state)
{
	unsigned refused = 0;

	(void)state;
	for (unsigned i = 0; algorithm_of(i); i++) {
		for (unsigned j = 0; algorithm_of(j); j++) {
			for (const struct algo_parameter *row = algorithm_of(j)->parameters; row->name; row++) {
				struct weir_limit_options options = least(algorithm_of(i));

				if (own(algorithm_of(i), row))
					continue;
				if (row->own)
					parameter_set_own(row->own, &own_options, &options);
				else
					give(row, &options);
				assert_status(&options, WEIR_EINVAL,
				              row->own ? algorithm_of(j)->name : first_name(row));
				refused++;
			}
		}
	}
	assert_true(refused > 100);
}

/* At one rate or another: so fast that any bucket fills in time, or so slow that few are stored. */
static void assert_taken(struct weir_limit_options options)
{
	struct algo_limit limit;

	if (options.rate.count)
		options.rate.unit = WEIR_UNIT_NANOSECOND;
	if (algo_limit_init(&limit, &options, NULL) == WEIR_OK) {
		algo_limit_free(&limit);
		return;
	}
	options.rate.unit = WEIR_UNIT_DAY;
	assert_status(&options, WEIR_OK, "");
}

static void numbers_are_taken_to_the_ends_of_their_range(void **state)
{
	(void)state;
	for (unsigned i = 0; algorithm_of(i); i++) {
		for (const struct algo_parameter *row = algorithm_of(i)->parameters; row->name; row++) {
			struct weir_limit_options options = least(algorithm_of(i));
			const uint64_t zero = WEIR_ZERO; /* in a narrow field its low half */

			if (row->type != ALGO_NUMBER && row->type != ALGO_TIME)
				continue;
			parameter_set(row, row->min, &options);
			assert_taken(options);
			parameter_set(row, row->max, &options);
			assert_taken(options);
			parameter_set(row, row->max + 1, &options);
			assert_status(&options, WEIR_ERANGE, row->name);
			memcpy(parameter_writable(row, &options), &zero, row->size);
			if (row->min == 0 && row->default_value != 0)
				assert_taken(options);
			else
				assert_status(&options, WEIR_ERANGE, row->name);
		}
	}
}

static void a_number_that_is_set_is_the_one_that_is_resolved(void **state)
{
	(void)state;
	for (unsigned i = 0; algorithm_of(i); i++) {
		for (const struct algo_parameter *row = algorithm_of(i)->parameters; row->name; row++) {
			const uint64_t values[] = {row->min, row->min + 1, row->max};

			for (size_t j = 0; j < 3 && (row->type == ALGO_NUMBER || row->type == ALGO_TIME); j++) {
				struct weir_limit_options options = least(algorithm_of(i));
				union algo_own room;

				parameter_set(row, values[j], &options);
				algorithm_resolve(&options, &room);
				assert_int_equal(parameter_number(row, &options), values[j]);
			}
		}
	}
}

static void words_and_decimals_are_checked(void **state)
{
	struct weir_limit_options options = {
	    .rate = {1}, .algorithm = WEIR_ALGORITHM_FIXED_WINDOW, .align = 7};

	(void)state;
	assert_status(&options, WEIR_EINVAL, "align: expected one of calendar, first_request, found 7");
	options = (struct weir_limit_options){.algorithm = WEIR_ALGORITHM_RANDOM, .deny = 1.5};
	assert_status(&options, WEIR_ERANGE, "deny: expected 0 to 1, found 1.5");
	options = (struct weir_limit_options){.algorithm = 99};
	assert_int_equal(algo_limit_init(&(struct algo_limit){0}, &options, NULL), WEIR_EINVAL);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	    cmocka_unit_test(every_value_of_the_enumeration_has_its_description),
	    cmocka_unit_test(a_step_changes_nothing_for_an_operation_that_it_does_not_know),
	    cmocka_unit_test(required_parameters_are_sufficient_and_necessary),
	    cmocka_unit_test(parameters_of_other_algorithms_are_refused_by_name),
	    cmocka_unit_test(numbers_are_taken_to_the_ends_of_their_range),
	    cmocka_unit_test(a_number_that_is_set_is_the_one_that_is_resolved),
	    cmocka_unit_test(words_and_decimals_are_checked),
	};

	return cmocka_run_group_tests(tests, NULL, NULL);
}
