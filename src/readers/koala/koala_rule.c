/*
 * koala_rule.c: parses one line of a Koala rule file,
 * `rule : [method] [conditions] [thresholds] [answer]`, into a rule of Weir's model and the limit
 * that counts its requests. Koala is a rate limiter whose rule files Weir can read.
 */
#include <stdio.h>

#include "algo/algo.h"
#include "base/error.h"
#include "readers/koala/koala.h"
#include "readers/koala/koala_method.h"
#include "rules/remark.h"

enum part { METHOD, CONDITIONS, THRESHOLDS, ANSWER, PARTS };

/* The numbers in the thresholds (BASE to ERASE2) and in the answer. */
enum number { BASE, TIME, COUNT, ERASE1, ERASE2, RESULT, RETURN, NUMBERS };

static const struct {
	const char *name;
	enum part part;
} number_names[NUMBERS] = {
    [BASE] = {"base", THRESHOLDS},     [TIME] = {"time", THRESHOLDS},
    [COUNT] = {"count", THRESHOLDS},   [ERASE1] = {"erase1", THRESHOLDS},
    [ERASE2] = {"erase2", THRESHOLDS}, [RESULT] = {"result", ANSWER},
    [RETURN] = {"return", ANSWER},
};

/* The text of a rule, split, and its numbers as far as they are read. */
struct rule_text {
	struct slice parts[PARTS];
	struct slice text[NUMBERS]; /* as in the file; data is NULL if the rule lacks the number */
	uint64_t value[NUMBERS];
};

/* The method that answers without counting. */
#define DIRECT "direct"

/* Returns NUMBERS if the part has no number with that name. */
static enum number find_number(struct slice name, enum part part)
{
	enum number number = 0;

	while (number < NUMBERS && !(number_names[number].part == part &&
	                             slice_equal(name, slice_of(number_names[number].name))))
		number++;
	return number;
}

static void report_unknown_name(struct koala *koala, struct slice name, enum part part)
{
	struct phrase known = {0};

	for (enum number i = 0; i < NUMBERS; i++)
		if (number_names[i].part == part)
			phrase_add(&known, slice_of(number_names[i].name));
	koala_error(koala, name.data, "expected one of %s, found %s", known.text,
	            phrase_quote(name).text);
}

/* Splits a part such as `time=60; count=5` and stores the text of each number. */
static void read_numbers(struct koala *koala, struct rule_text *rule, enum part part)
{
	struct slice rest = rule->parts[part];

	while (rest.len > 0) {
		struct slice item = slice_trim(slice_cut(&rest, ';')), value = item;
		struct slice name = slice_trim(slice_cut(&value, '='));
		enum number number = find_number(name, part);

		if (item.len == 0)
			continue;
		if (number == NUMBERS) {
			report_unknown_name(koala, name, part);
			continue;
		}
		if (rule->text[number].data)
			koala_warning(koala, name.data,
			              "expected each name once, found %s again: the last counts",
			              phrase_quote(name).text);
		rule->text[number] = slice_trim(value);
	}
}

/* Reads a number that the rule must have, from 1 to `max`. Returns false after an error. */
static bool read_required(struct koala *koala, struct rule_text *rule, enum number number,
                          uint64_t max)
{
	if (rule->text[number].data)
		return koala_read_number(koala, rule->text[number], 1, max, &rule->value[number]);
	koala_error(koala, rule->parts[number_names[number].part].data, "expected %s in %s, found none",
	            number_names[number].name,
	            number_names[number].part == ANSWER ? "an answer" : "the thresholds of the method");
	return false;
}

/* Reads a number from 0 to `max`, which stays 0 if the rule lacks it. */
static bool read_optional(struct koala *koala, struct rule_text *rule, enum number number,
                          uint64_t max)
{
	return !rule->text[number].data ||
	       koala_read_number(koala, rule->text[number], 0, max, &rule->value[number]);
}

/* A number without effect, such as the count of `direct`, must still be one that Koala can read. */
static bool check_ignored_number(struct koala *koala, const struct rule_text *rule,
                                 enum number number)
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

/* Warns of a threshold that only other methods use. */
static void warn_if_present(struct koala *koala, struct rule_text *rule, enum number number)
{
	if (check_ignored_number(koala, rule, number) && rule->text[number].data)
		koala_warning(
		    koala, rule->text[number].data,
		    "expected no %s in the thresholds of this method, found it: the method ignores it",
		    number_names[number].name);
}

/* Each number is in its range: now the algorithm checks whether they suit each other. */
static bool check_with_algorithm(struct koala *koala, const struct rule_text *rule,
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

/* Shortens a time, with a warning, to the longest that the limit of the method can have. */
static void cap_time(struct koala *koala, struct rule_text *rule, uint64_t max_s)
{
	if (rule->value[TIME] <= max_s)
		return;
	koala_warning(koala, rule->text[TIME].data,
	              "expected a time of at most %llu s, found %llu: Weir uses %llu s",
	              (unsigned long long)max_s, (unsigned long long)rule->value[TIME],
	              (unsigned long long)max_s);
	rule->value[TIME] = max_s;
}

/* A larger count gets an approximate sliding window in place of an exact log of requests. */
static void warn_if_counted_in_hundredths(struct koala *koala, const struct rule_text *rule,
                                          const struct koala_method *method)
{
	if (rule->value[COUNT] > method->exact_count_max)
		koala_warning(
		    koala, rule->text[COUNT].data,
		    "expected a count of at most %llu, found %llu: Weir counts it by hundredths of the "
		    "time, so a unit comes back up to a hundredth later",
		    (unsigned long long)method->exact_count_max, (unsigned long long)rule->value[COUNT]);
}

/* Reads the count. A count of 0 is an error that says how to write what the rule means. */
static bool read_count(struct koala *koala, const struct koala_method *method,
                       struct rule_text *rule, uint64_t count_max)
{
	struct slice text = rule->text[COUNT];
	uint64_t value;

	if (!text.data || !parse_u64(text, &value) || value > 0)
		return read_required(koala, rule, COUNT, count_max);
	koala_error(koala, text.data, "expected a whole number from 1 to %llu, found %s: %s",
	            (unsigned long long)count_max, phrase_quote(text).text,
	            method->has_base
	                ? "to deny every request past the base of a day, write [count] with "
	                  "the base as its count and time=86400"
	                : "to deny every request that meets the conditions, write [" DIRECT
	                  "] as the method");
	return false;
}

/* Makes the options of the rule's limit from the thresholds that its method uses. */
static bool read_thresholds(struct koala *koala, const struct koala_method *method,
                            struct rule_text *rule, struct koala_rule *out)
{
	uint64_t count_max = koala_method_count_max(method);
	bool valid = read_required(koala, rule, TIME, INT32_MAX);

	valid &= read_count(koala, method, rule, count_max);
	if (method->has_base)
		valid &= read_required(koala, rule, BASE, count_max);
	else
		warn_if_present(koala, rule, BASE);
	for (enum number i = ERASE1; i <= ERASE2; i++) {
		if (method->has_erase)
			valid &= read_optional(koala, rule, i, count_max);
		else
			warn_if_present(koala, rule, i);
	}
	if (!valid)
		return false;
	cap_time(koala, rule, koala_method_time_max_s(method, rule->value[COUNT]));
	warn_if_counted_in_hundredths(koala, rule, method);
	koala_method_options(method,
	                     &(struct koala_thresholds){rule->value[BASE], rule->value[TIME],
	                                                rule->value[COUNT],
	                                                koala->config->koala.timezone},
	                     &out->limit.options);
	if (method->has_erase) { /* units that the client may give back by its feedback */
		out->rule.feedback[0] = rule->value[ERASE1];
		out->rule.feedback[1] = rule->value[ERASE2];
	}
	return check_with_algorithm(koala, rule, &out->limit.options);
}

static bool read_method(struct koala *koala, struct rule_text *rule, struct koala_rule *out)
{
	struct slice name = rule->parts[METHOD];
	const struct koala_method *method = koala_method_find(name);

	if (method)
		return read_thresholds(koala, method, rule, out);
	if (slice_equal(name, SLICE(DIRECT))) {
		for (enum number i = 0; i < NUMBERS; i++)
			if (number_names[i].part == THRESHOLDS)
				check_ignored_number(koala, rule, i);
		out->rule.answer = RULES_DENY;
		return true;
	}
	koala_expected(koala, name, "a method (" DIRECT ", " KOALA_METHOD_NAMES ")");
	return false;
}

/*
 * Reads `result`, the number of the JSON that answers a denied request, and `return`, the code in
 * it, which is also the name of the rule and its limit. A rule with result 1 lets all requests
 * pass, even those over its limit.
 */
static bool read_answer(struct koala *koala, struct rule_text *rule, struct koala_rule *out)
{
	bool is_direct = out->rule.answer != RULES_BY_LIMITS; /* set by read_method */
	bool valid = read_required(koala, rule, RESULT, INT64_MAX);
	char name[24];

	valid &= read_required(koala, rule, RETURN, INT64_MAX);
	if (!valid)
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
	if (is_direct) {
		out->rule.key_count = 0; /* it counts nothing */
	} else {
		out->limit.options.name = out->rule.name;
		out->limit.file = out->rule.file;
		out->limit.line = out->rule.line;
		out->limit.column = out->rule.column;
	}
	return true;
}

/* Finds a [ inside one of the first `count` parts, which therefore lack their own ]. */
static const char *find_unclosed(const struct rule_text *rule, enum part count)
{
	const char *found = NULL;

	for (enum part i = 0; i < count && !found; i++)
		found = memchr(rule->parts[i].data, '[', rule->parts[i].len);
	return found;
}

/* Stores the text between the brackets of each of the four parts. */
static bool split_into_parts(struct koala *koala, struct slice text, struct rule_text *rule)
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
	if (koala_is_end_of_line(text))
		return true;
	koala_expected(koala, slice_trim(text), "the end of the line after the four parts of a rule");
	return false;
}

/* Adds the rule to koala->rules if it has no error. Goes on after an error, to report others. */
void koala_read_rule(struct koala *koala, struct slice text)
{
	struct rule_text rule = {0};
	struct koala_rule out = {0};
	struct slice rest = text;
	bool valid, is_rule = slice_equal_nocase(slice_trim(slice_cut(&rest, ':')), SLICE("rule"));

	if (!is_rule)
		koala_expected(koala, text, "rule : [method] [conditions] [thresholds] [answer]");
	if (!is_rule || !split_into_parts(koala, rest, &rule)) {
		koala->may_lack_conditions = true;
		return;
	}
	if (koala->rules.len / sizeof out == KOALA_RULES_MAX) {
		koala_error(koala, text.data, "expected at most %d rules, found more", KOALA_RULES_MAX);
		return;
	}
	read_numbers(koala, &rule, THRESHOLDS);
	read_numbers(koala, &rule, ANSWER);
	valid = read_method(koala, &rule, &out);
	koala_read_conditions(koala, rule.parts[CONDITIONS], &out.rule);
	valid &= read_answer(koala, &rule, &out);
	if (valid)
		buffer_add(&koala->rules, &out, sizeof out);
}
