/* koala_result.c: `2 : { "Ret_type":2, … }`, an answer as JSON. */
#include "base/number.h"
#include "readers/compact.h"
#include "readers/koala.h"
#include "readers/reserved.h"

#define CODE_MAX 64 /* bytes of that field, which a rule fills */

static const struct slice code_field = SLICE("Ret_code");

static bool may_have(struct slice name)
{
	return !reserved_field(name);
}

/* Reports the error. */
static void say(struct koala *koala, const struct compact *compact)
{
	if (compact->out.failed)
		koala_error(koala, compact->rest.data, "expected at most %zu bytes as JSON, found more",
		            compact->out.max);
	else if (compact->expected)
		koala_expected(koala, compact->rest, compact->expected);
	else
		koala_error(
		    koala, compact->rest.data, RESERVED_EXPECTED, reserved_fields().text,
		    phrase_quote((struct slice){compact->rest.data + 1, compact->rest.len - 2}).text);
}

static void take(struct koala *koala, uint64_t number, struct compact *compact)
{
	struct buffer *out = &compact->out;
	struct koala_result result = {.number = number};

	out->max = RESULT_MAX;
	result.whole = koala_copy(koala, (struct slice){out->data, out->len});
	if (compact->wanted_end == 0) { /* a rule adds it at the end */
		out->len--;
		buffer_printf(out, "%s\"%s\":}", out->len > 1 ? "," : "", code_field.data);
		compact->wanted_begin = compact->wanted_end = out->len - 1;
	}
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
	    .wanted = code_field,
	};
	uint64_t number;

	if (!memchr(text.data, ':', text.len)) {
		koala_expected(koala, text, "a result such as 2 : { \"Ret_type\":2 }");
		koala->lost_result = true;
		return;
	}
	compact.rest = text;
	if (!read_number(koala, slice_trim(slice_cut(&compact.rest, ':')), &number))
		return;
	if (!compact_object(&compact) || compact.out.failed) {
		say(koala, &compact);
		/* Rules that name it have no error. */
		buffer_add(&koala->results, &(struct koala_result){.number = number, .whole = ""},
		           sizeof(struct koala_result));
	} else {
		if (!koala_ends(compact.rest))
			koala_expected(koala, slice_trim(compact.rest), "the end of the line after a result");
		take(koala, number, &compact);
	}
	buffer_free(&compact.out);
}
