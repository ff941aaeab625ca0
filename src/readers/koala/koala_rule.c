/* koala_rule.c: parses a rule: `rule : [method] [conditions] [thresholds] [answer]`. */
#include <stdio.h>

#include "algo/algo.h"
#include "base/error.h"
#include "readers/koala/koala.h"
#include "readers/koala/koala_method.h"
#include "rules/remark.h"

enum part { METHOD, CONDITIONS, THRESHOLDS, ANSWER, PARTS };

/* The numbers of the third and of the fourth part. */
enum number { BASE, TIME, COUNT, ERASE1, ERASE2, RESULT, RETURN, NUMBERS };

static const struct {
	const char *name;
	enum part part;
} numbers[NUMBERS] = {
    [BASE] = {"base", THRESHOLDS},     [TIME] = {"time", THRESHOLDS},
    [COUNT] = {"count", THRESHOLDS},   [ERASE1] = {"erase1", THRESHOLDS},
    [ERASE2] = {"erase2", THRESHOLDS}, [RESULT] = {"result", ANSWER},
    [RETURN] = {"return", ANSWER},
};

/* A rule while it is read. */
struct reading {
	struct slice parts[PARTS];
	struct slice text[NUMBERS]; /* as the file has it; no data: not given */
	uint64_t value[NUMBERS];
};

/* A method that decides by itself. */
#define DIRECT "direct"

static enum number number_named(struct slice name, enum part part)
{
	enum number number = 0;

	while (number < NUMBERS &&
	       !(numbers[number].part == part && slice_equal(name, slice_of(numbers[number].name))))
		number++;
	return number;
}

static void unknown_name(struct koala *koala, struct slice name, enum part part)
{
	struct phrase known = {0};

	for (enum number i = 0; i < NUMBERS; i++)
		if (numbers[i].part == part)
			phrase_add(&known, slice_of(numbers[i].name));
	koala_error(koala, name.data, "expected one of %s, found %s", known.text,
	            phrase_quote(name).text);
}

/* name=number; name=number */
static void read_numbers(struct koala *koala, struct reading *rule, enum part part)
{
	struct slice rest = rule->parts[part];

	while (rest.len > 0) {
		struct slice item = slice_trim(slice_cut(&rest, ';')), value = item;
		struct slice name = slice_trim(slice_cut(&value, '='));
		enum number number = number_named(name, part);

		if (item.len == 0)
			continue;
		if (number == NUMBERS) {
			unknown_name(koala, name, part);
			continue;
		}
		if (rule->text[number].data)
			koala_warning(koala, name.data,
			              "expected each name once, found %s again: the last counts",
			              phrase_quote(name).text);
		rule->text[number] = slice_trim(value);
	}
}

/* A number that must be there, of at least 1. */
static bool required(struct koala *koala, struct reading *rule, enum number number, uint64_t max)
{
	if (rule->text[number].data)
		return koala_number(koala, rule->text[number], 1, max, &rule->value[number]);
	koala_error(koala, rule->parts[numbers[number].part].data, "expected %s in %s, found none",
	            numbers[number].name,
	            numbers[number].part == ANSWER ? "an answer" : "the thresholds of the method");
	return false;
}

static bool optional(struct koala *koala, struct reading *rule, enum number number, uint64_t max)
{
	return !rule->text[number].data ||
	       koala_number(koala, rule->text[number], 0, max, &rule->value[number]);
}

/* A number that has no effect, such as the count of `direct`: any that Koala can read. */
static bool ignored(struct koala *koala, const struct reading *rule, enum number number)
{
	struct slice text = rule->text[number], digits = text;
	uint64_t value;

	if (!text.data)
		return true;
	if (!slice_skip(&digits, SLICE("-")))
		slice_skip(&digits, SLICE("+"));
	if (parse_u64(digits, &value))
		return true;
	koala_expected(koala, text, "a whole number");
	return false;
}

/* A threshold of another method. */
static void idle(struct koala *koala, struct reading *rule, enum number number)
{
	if (ignored(koala, rule, number) && rule->text[number].data)
		koala_warning(
		    koala, rule->text[number].data,
		    "expected no %s in the thresholds of this method, found it: the method ignores it",
		    numbers[number].name);
}

/* Asks the algorithm about options that are in their ranges. */
static bool check_limit(struct koala *koala, const struct reading *rule,
                        const struct weir_limit_options *options)
{
	struct algo_limit algo;
	struct weir_error error = {0};
	int status = algo_limit_init(&algo, options, &error);

	if (status == WEIR_OK) {
		algo_limit_free(&algo);
		return true;
	}
	koala->no_memory |= status == WEIR_ENOMEM;
	koala_error(koala, rule->parts[THRESHOLDS].data, "%s", error.message);
	return false;
}

/* Windows last a year at most. */
static void shorten_time(struct koala *koala, struct reading *rule, uint64_t max_s)
{
	if (rule->value[TIME] <= max_s)
		return;
	koala_warning(koala, rule->text[TIME].data,
	              "expected a time of at most %llu s, found %llu: Weir uses %llu s",
	              (unsigned long long)max_s, (unsigned long long)rule->value[TIME],
	              (unsigned long long)max_s);
	rule->value[TIME] = max_s;
}

static void warn_of_parts(struct koala *koala, const struct reading *rule,
                          const struct koala_method *method)
{
	if (rule->value[COUNT] > method->exact_max)
		koala_warning(
		    koala, rule->text[COUNT].data,
		    "expected a count of at most %llu, found %llu: Weir counts it by hundredths of the "
		    "time, so a unit comes back up to a hundredth later",
		    (unsigned long long)method->exact_max, (unsigned long long)rule->value[COUNT]);
}

static bool read_thresholds(struct koala *koala, const struct koala_method *method,
                            struct reading *rule, struct koala_rule *out)
{
	uint64_t most = koala_method_count_max(method);
	bool good = required(koala, rule, TIME, INT32_MAX);

	good &= required(koala, rule, COUNT, most);
	if (method->has_base)
		good &= required(koala, rule, BASE, most);
	else
		idle(koala, rule, BASE);
	for (enum number i = ERASE1; i <= ERASE2; i++) {
		if (method->gives_back)
			good &= optional(koala, rule, i, most);
		else
			idle(koala, rule, i);
	}
	if (!good)
		return false;
	shorten_time(koala, rule, koala_method_time_max_s(method, rule->value[COUNT]));
	warn_of_parts(koala, rule, method);
	koala_method_options(method,
	                    &(struct koala_thresholds){rule->value[BASE], rule->value[TIME],
	                                              rule->value[COUNT],
	                                              koala->config->koala.timezone},
	                    &out->limit.options);
	if (method->gives_back)
		memcpy(out->rule.feedback, &rule->value[ERASE1], sizeof out->rule.feedback);
	return check_limit(koala, rule, &out->limit.options);
}

static bool read_method(struct koala *koala, struct reading *rule, struct koala_rule *out)
{
	struct slice name = rule->parts[METHOD];
	const struct koala_method *method = koala_method_find(name);

	if (method)
		return read_thresholds(koala, method, rule, out);
	if (slice_equal(name, SLICE(DIRECT))) {
		for (enum number i = 0; i < NUMBERS; i++) /* which say nothing, but are numbers */
			if (numbers[i].part == THRESHOLDS)
				ignored(koala, rule, i);
		out->rule.answer = RULES_DENY;
		return true;
	}
	koala_expected(koala, name, "a method (" DIRECT ", " KOALA_METHOD_NAMES ")");
	return false;
}

/* Result and return; a result of 1 lets pass. */
static bool read_answer(struct koala *koala, struct reading *rule, struct koala_rule *out)
{
	bool counts = out->rule.answer == RULES_BY_LIMITS;
	bool good = required(koala, rule, RESULT, INT64_MAX);
	char name[24];

	good &= required(koala, rule, RETURN, INT64_MAX);
	if (!good)
		return false;
	out->result = rule->value[RESULT];
	out->result_line = koala->line_number;
	out->result_column = koala_column(koala, rule->text[RESULT].data);
	out->code = rule->value[RETURN];
	snprintf(name, sizeof name, "%llu", (unsigned long long)out->code);
	out->rule.name = koala_copy(koala, slice_of(name));
	out->rule.file = koala->file;
	out->rule.line = koala->line_number;
	out->rule.column = koala_column(koala, rule->text[RETURN].data);
	if (out->result == 1)
		out->rule.answer = RULES_ALLOW;
	if (!counts)
		out->rule.key_count = 0;
	if (counts) {
		out->limit.options.name = out->rule.name;
		out->limit.file = out->rule.file;
		out->limit.line = out->rule.line;
		out->limit.column = out->rule.column;
	}
	return true;
}

/* The [ that stands in one of the first parts, whose ] is missing; NULL if there is none. */
static const char *find_unclosed(const struct reading *rule, enum part count)
{
	const char *found = NULL;

	for (enum part i = 0; i < count && !found; i++)
		found = memchr(rule->parts[i].data, '[', rule->parts[i].len);
	return found;
}

/* The text between brackets, of each of the four parts. */
static bool cut_parts(struct koala *koala, struct slice text, struct reading *rule)
{
	for (enum part i = 0; i < PARTS; i++) {
		text = slice_trim(text);
		if (text.len == 0 || *text.data != '[' || !memchr(text.data, ']', text.len)) {
			const char *unclosed = find_unclosed(rule, i);

			if (unclosed)
				koala_error(koala, unclosed, "expected ] before the next part of a rule, found [");
			else
				koala_error(
				    koala, text.data,
				    "expected four parts [method] [conditions] [thresholds] [answer], found %u",
				    (unsigned)i);
			return false;
		}
		slice_skip(&text, SLICE("["));
		rule->parts[i] = slice_trim(slice_cut(&text, ']'));
	}
	if (koala_ends(text))
		return true;
	koala_expected(koala, slice_trim(text), "the end of the line after the four parts of a rule");
	return false;
}

void koala_read_rule(struct koala *koala, struct slice text)
{
	struct reading rule = {0};
	struct koala_rule out = {0};
	struct slice rest = text;
	bool good, is_rule = slice_equal_nocase(slice_trim(slice_cut(&rest, ':')), SLICE("rule"));

	if (!is_rule)
		koala_expected(koala, text, "rule : [method] [conditions] [thresholds] [answer]");
	if (!is_rule || !cut_parts(koala, rest, &rule)) {
		koala->lost_conditions = true;
		return;
	}
	if (koala->rules.len / sizeof out == KOALA_RULES_MAX) {
		koala_error(koala, text.data, "expected at most %d rules, found more", KOALA_RULES_MAX);
		return;
	}
	read_numbers(koala, &rule, THRESHOLDS);
	read_numbers(koala, &rule, ANSWER);
	good = read_method(koala, &rule, &out);
	koala_read_conditions(koala, rule.parts[CONDITIONS], &out.rule);
	good &= read_answer(koala, &rule, &out);
	if (good)
		buffer_add(&koala->rules, &out, sizeof out);
}
