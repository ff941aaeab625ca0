/* koala_result.c: parses an answer in JSON: `2 : { "Ret_type":2, … }`. */
#include "base/number.h"
#include "readers/compact.h"
#include "readers/koala/koala.h"
#include "readers/reserved.h"

#define CODE_MAX 64 /* bytes of that field, which a rule fills */

/* The fields of an answer in Koala. Those that a file leaves out are zero. */
static const struct slice fields[] = {
    SLICE("Ret_type"),   SLICE("Ret_code"),   SLICE("Err_no"),    SLICE("Err_msg"),
    SLICE("Str_reason"), SLICE("Need_vcode"), SLICE("Vcode_len"), SLICE("Vcode_type"),
    SLICE("Other"),      SLICE("Version"),
};
#define FIELD_COUNT (sizeof fields / sizeof *fields)
enum { CODE_FIELD = 1 };

/* Whether the field is a text; all others are numbers. */
static bool is_text(struct slice name)
{
	return slice_equal(name, SLICE("Err_msg")) || slice_equal(name, SLICE("Str_reason")) ||
	       slice_equal(name, SLICE("Other"));
}

static bool may_have(struct slice name)
{
	return !reserved_field(name);
}

/* Reports the error. */
static void report_error(struct koala *koala, const struct compact *compact)
{
	const struct json *json = &compact->json;
	struct slice rest = json_rest(json);

	if (compact->out.failed)
		koala_error(koala, json->at, "expected at most %zu bytes as JSON, found more",
		            compact->out.max);
	else if (*json->expected)
		koala_expected(koala, rest, json->expected);
	else
		koala_error(koala, json->at, RESERVED_EXPECTED, reserved_fields().text,
		            phrase_quote((struct slice){rest.data + 1, rest.len - 2}).text);
}

/* Behind the fields of the file, in their order. */
static void add_missing(struct compact *compact)
{
	struct buffer *out = &compact->out;

	out->len--;
	for (unsigned i = 0; i < FIELD_COUNT; i++) {
		if (compact->found >> i & 1)
			continue;
		buffer_printf(out, "%s\"%s\":", out->len > 1 ? "," : "", fields[i].data);
		if (i == CODE_FIELD)
			compact->wanted_begin = out->len;
		buffer_add_text(out, is_text(fields[i]) ? "\"\"" : "0");
		if (i == CODE_FIELD)
			compact->wanted_end = out->len;
	}
	buffer_add(out, "}", 1);
}

static void add_result(struct koala *koala, uint64_t number, struct compact *compact)
{
	struct buffer *out = &compact->out;
	struct koala_result result = {.number = number};

	result.whole = koala_copy(koala, (struct slice){out->data, out->len});
	result.head.len = compact->wanted_begin;
	result.head.data = koala_copy(koala, (struct slice){out->data, out->len});
	result.tail.data = result.head.data + compact->wanted_end;
	result.tail.len = out->len - compact->wanted_end;
	if (!koala->no_memory)
		buffer_add(&koala->results, &result, sizeof result);
}

static bool read_number(struct koala *koala, struct slice text, uint64_t *out)
{
	if (koala->results.len / sizeof(struct koala_result) == KOALA_RESULTS_MAX)
		koala_error(koala, text.data, "expected at most %d results, found more", KOALA_RESULTS_MAX);
	else if (!koala_number(koala, text, 0, INT64_MAX, out))
		koala->lost_result = true;
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
	    .out = {.max = RESULT_MAX - CODE_MAX},
	    .field = may_have,
	    .names = fields,
	    .name_count = FIELD_COUNT,
	    .wanted = fields[CODE_FIELD],
	};
	uint64_t number;
	bool good;

	if (!memchr(text.data, ':', text.len)) {
		koala_expected(koala, text, "a result such as 2 : { \"Ret_type\":2 }");
		koala->lost_result = true;
		return;
	}
	if (!read_number(koala, slice_trim(slice_cut(&text, ':')), &number))
		return;
	compact.json = json_of(text);
	good = compact_object(&compact) && !compact.out.failed;
	if (good)
		add_missing(&compact);
	if (!good || compact.out.failed) {
		report_error(koala, &compact);
		/* Rules that name it have no error. */
		buffer_add(&koala->results, &(struct koala_result){.number = number, .whole = ""},
		           sizeof(struct koala_result));
	} else {
		if (!koala_ends(json_rest(&compact.json)))
			koala_expected(koala, slice_trim(json_rest(&compact.json)), "the end of the line after a result");
		add_result(koala, number, &compact);
	}
	buffer_free(&compact.out);
}

const struct koala_result *koala_result(const struct koala *koala, uint64_t number)
{
	const struct koala_result *all = (const void *)koala->results.data;

	for (size_t i = 0; i < koala->results.len / sizeof *all; i++)
		if (all[i].number == number)
			return &all[i];
	return NULL;
}
