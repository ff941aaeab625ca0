/*
 * koala_result.c: parses a line of the section [result] of a Koala rule file, `2 : { "Ret_type":2
 * }`: a number by which rules name the result, and the JSON that answers a request. A rule writes
 * its own code into the field Ret_code.
 */
#include "base/number.h"
#include "readers/compact.h"
#include "readers/koala/koala.h"
#include "readers/reserved.h"

#define CODE_BYTES_MAX 64 /* reserved for the code that a rule writes into a result */

/* The fields of every answer by Koala. Those that a file leaves out are 0 or an empty text. */
static const struct slice koala_fields[] = {
    SLICE("Ret_type"),   SLICE("Ret_code"),   SLICE("Err_no"),    SLICE("Err_msg"),
    SLICE("Str_reason"), SLICE("Need_vcode"), SLICE("Vcode_len"), SLICE("Vcode_type"),
    SLICE("Other"),      SLICE("Version"),
};
#define FIELD_COUNT (sizeof koala_fields / sizeof *koala_fields)
enum { CODE_FIELD = 1 };

/* Whether the field is a text; all others are numbers. */
static bool is_text_field(struct slice name)
{
	return slice_equal(name, SLICE("Err_msg")) || slice_equal(name, SLICE("Str_reason")) ||
	       slice_equal(name, SLICE("Other"));
}

/* Whether a result may have a field of this name: Weir itself adds some fields to each answer. */
static bool is_free_name(struct slice name)
{
	return !reserved_field(name);
}

/* `compact` has stopped at a reserved name, which json_rest returns with its quotes. */
static void report_reserved_name(struct koala *koala, const struct compact *compact)
{
	struct slice quoted = json_rest(&compact->json);
	struct slice name = {quoted.data + 1, quoted.len - 2};

	koala_error(koala, compact->json.at, RESERVED_EXPECTED, reserved_fields().text,
	            phrase_quote(name).text);
}

/* `compact` has failed: its JSON is too long, or has a mistake, or uses a reserved name. */
static void report_json_error(struct koala *koala, const struct compact *compact)
{
	const struct json *json = &compact->json;

	if (compact->out.failed)
		koala_error(koala, json->at, "expected at most %zu bytes as JSON, found more",
		            compact->out.max);
	else if (*json->expected) /* it is empty at a reserved name */
		koala_expected(koala, json_rest(json), json->expected);
	else
		report_reserved_name(koala, compact);
}

/* Appends the fields that the object lacks. */
static void add_missing_fields(struct compact *compact)
{
	struct buffer *out = &compact->out;

	out->len--; /* the closing brace */
	for (unsigned i = 0; i < FIELD_COUNT; i++) {
		if (compact->found_names >> i & 1)
			continue;
		buffer_printf(out, "%s\"%s\":", out->len > 1 ? "," : "", koala_fields[i].data);
		if (i == CODE_FIELD)
			compact->located_begin = out->len;
		buffer_add_text(out, is_text_field(koala_fields[i]) ? "\"\"" : "0");
		if (i == CODE_FIELD)
			compact->located_end = out->len;
	}
	buffer_add(out, "}", 1);
}

/* Stores the JSON, and its parts before and after the value of the code. */
static void add_result(struct koala *koala, uint64_t number, struct compact *compact)
{
	struct buffer *out = &compact->out;
	struct koala_result result = {.number = number};

	result.json = koala_copy(koala, (struct slice){out->data, out->len});
	result.before_code.len = compact->located_begin;
	result.before_code.data = koala_copy(koala, (struct slice){out->data, out->len});
	result.after_code.data = result.before_code.data + compact->located_end;
	result.after_code.len = out->len - compact->located_end;
	if (!koala->no_memory)
		buffer_add(&koala->results, &result, sizeof result);
}

/*
 * Returns false after an error: too many results, not a number, or one that was used before. A
 * number that can't be read may be one that rules name, so no rule is then said to lack its result.
 */
static bool read_result_number(struct koala *koala, struct slice text, uint64_t *out)
{
	if (koala->results.len / sizeof(struct koala_result) == KOALA_RESULTS_MAX)
		koala_error(koala, text.data, "expected at most %d results, found more", KOALA_RESULTS_MAX);
	else if (!koala_read_number(koala, text, 0, INT64_MAX, out))
		koala->may_lack_results = true;
	else if (koala_result(koala, *out))
		koala_error(koala, text.data, "expected each result once, found %llu again",
		            (unsigned long long)*out);
	else
		return true;
	return false;
}

void koala_read_result(struct koala *koala, struct slice text)
{
	struct compact compact = {
	    .out = {.max = RESULT_MAX - CODE_BYTES_MAX},
	    .may_have_field = is_free_name,
	    .counted_names = koala_fields,
	    .counted_name_count = FIELD_COUNT,
	    .located_name = koala_fields[CODE_FIELD],
	};
	uint64_t number;
	bool valid;

	if (!memchr(text.data, ':', text.len)) {
		koala_expected(koala, text, "a result such as 2 : { \"Ret_type\":2 }");
		koala->may_lack_results = true;
		return;
	}
	if (!read_result_number(koala, slice_trim(slice_cut(&text, ':')), &number))
		return;
	compact.json = json_of(text);
	valid = compact_object(&compact) && !compact.out.failed;
	if (valid)
		add_missing_fields(&compact);
	if (!valid || compact.out.failed) {
		report_json_error(koala, &compact);
		/* Add an empty result, so that rules which name it have no error of their own. */
		buffer_add(&koala->results, &(struct koala_result){.number = number, .json = ""},
		           sizeof(struct koala_result));
	} else {
		if (!koala_is_end_of_line(json_rest(&compact.json)))
			koala_expected(koala, slice_trim(json_rest(&compact.json)),
			               "the end of the line after a result");
		add_result(koala, number, &compact);
	}
	buffer_free(&compact.out);
}

const struct koala_result *koala_result(const struct koala *koala, uint64_t number)
{
	const struct koala_result *results = (const void *)koala->results.data;

	for (size_t i = 0; i < koala->results.len / sizeof *results; i++)
		if (results[i].number == number)
			return &results[i];
	return NULL;
}
