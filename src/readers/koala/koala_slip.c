/*
 * koala_slip.c: warns of values in the conditions of Koala rule files that are probably slips, that
 * is, typing errors.
 *
 * A value that is no range is compared as text, so a slip makes a condition that no request meets,
 * or a blacklist that lets all requests pass. The warning suggests how the value was meant.
 */
#include <stdio.h>

#include "base/network/ip.h"
#include "readers/koala/koala.h"
#include "rules/form.h"

#define ADDRESSES "an address like 10.0.*.*, or a range like 10.0.0.1-10.0.0.9 or 10.0.0.0/8"

/* A value that would be compared as text, and how it was probably meant. */
struct slip {
	struct koala *koala;
	struct slice text;
	const struct rules_condition *condition;
	bool is_first;       /* of the condition's list */
	struct buffer meant; /* empty if unknown */
};

static bool is_blank(char c)
{
	return c == ' ' || c == '\t';
}

static bool may_be_in_name(char c)
{
	return (c >= '0' && c <= '9') || ((c | 32) >= 'a' && (c | 32) <= 'z') || c == '_';
}

static bool consists_of(struct slice text, const char *letters)
{
	size_t i = 0;

	while (i < text.len && memchr(letters, text.data[i], strlen(letters)))
		i++;
	return i == text.len;
}

static bool contains(struct slice text, const char *part)
{
	return text.len > 0 && memmem(text.data, text.len, part, strlen(part)) != NULL;
}

/*
 * The functions below each recognize one kind of slip, of which the comment gives examples. They
 * return whether the value has it, and append to `meant` what was probably meant, if that is clear.
 */

/*
 * "=5" from a==5, "!x" from a=!x. An @ must precede the name of a dictionary, and < or > a number:
 * "@bob" and ">b" may well be text.
 */
static bool begins_with_operator(struct slip *slip)
{
	/* longer ones first */
	static const struct slice operators[] = {SLICE("!="), SLICE("="), SLICE("!@"), SLICE("!"),
	                                         SLICE("@"),  SLICE(">"), SLICE("<")};
	struct slice rest = slip->text;
	const char *sign;
	bool negated = slip->condition->negated;
	int64_t number;
	size_t i = 0;

	while (i < sizeof operators / sizeof *operators && !slice_skip(&rest, operators[i]))
		i++;
	rest = slice_trim(rest);
	if (i == sizeof operators / sizeof *operators || rest.len == 0)
		return false;
	sign = operators[i].data;
	if (strchr(sign, '@') && !koala_dictionary(slip->koala, rest))
		return false;
	if (strchr("<>", *sign) && !parse_i64(rest, &number))
		return false;
	if (strcmp(sign, "!") == 0 || (*sign == '=' && negated))
		sign = "!="; /* a=!x and a!==x mean a!=x */
	buffer_printf(&slip->meant, "%s%s", slip->condition->attribute, sign);
	buffer_add_slice(&slip->meant, rest);
	return true;
}

/* "1 - 3", "10.0.0.0 / 8" */
static bool is_form_with_blanks(struct slip *slip)
{
	struct rules_value value = {.test = RULES_EQUAL};
	const char *expected;

	if (!contains(slip->text, " ") && !contains(slip->text, "\t"))
		return false;
	for (size_t i = 0; i < slip->text.len; i++)
		if (!is_blank(slip->text.data[i]))
			buffer_add(&slip->meant, &slip->text.data[i], 1);
	value.text = (struct slice){slip->meant.data, slip->meant.len};
	return !slip->meant.failed && form_read(&value, false, &expected) != FORM_TEXT;
}

/* "1{~": the mark {~} belongs behind the last value, where it has been cut off. */
static bool has_misplaced_mark(struct slip *slip)
{
	return contains(slip->text, "{~") || contains(slip->text, "~}");
}

/* "*" */
static bool is_lone_star(struct slip *slip)
{
	if (!slice_equal(slip->text, SLICE("*")))
		return false;
	buffer_printf(&slip->meant, "%s=+", slip->condition->attribute);
	return true;
}

/* "\"ask\"" */
static bool is_quoted(struct slip *slip)
{
	struct slice text = slip->text;

	if (text.len < 3 || (*text.data != '"' && *text.data != '\'') ||
	    text.data[text.len - 1] != *text.data)
		return false;
	buffer_add(&slip->meant, text.data + 1, text.len - 2);
	return true;
}

/*
 * "ask uid=5" and, behind a comma, "uid=5". `begin` and `end` enclose the name before the sign of
 * the second condition, without blanks and without the ! of !=.
 */
static bool lacks_semicolon(struct slip *slip)
{
	struct slice text = slip->text;
	size_t sign = 0, end, begin;
	bool is_list_item, ends_a_value, is_double_sign;

	while (sign < text.len && !memchr("=<>@", text.data[sign], 4))
		sign++;
	end = sign > 0 && sign < text.len && text.data[sign - 1] == '!' ? sign - 1 : sign;
	while (end > 0 && is_blank(text.data[end - 1]))
		end--;
	for (begin = end; begin > 0 && may_be_in_name(text.data[begin - 1]); begin--)
		;
	if (sign + 1 >= text.len || begin == end)
		return false;
	is_double_sign = text.data[sign + 1] == '=';
	is_list_item = begin == 0 && !slip->is_first;
	ends_a_value = begin > 0 && is_blank(text.data[begin - 1]);
	if (is_double_sign || !(is_list_item || ends_a_value))
		return false;
	buffer_add_slice(&slip->meant, slice_trim((struct slice){text.data, begin}));
	buffer_add_text(&slip->meant, "; ");
	buffer_add(&slip->meant, text.data + begin, text.len - begin);
	return true;
}

static size_t count_dots(struct slice text)
{
	size_t dots = 0;

	for (size_t i = 0; i < text.len; i++)
		dots += text.data[i] == '.';
	return dots;
}

/* Whether the text has only digits, dots and stars, and a star or three dots among them. */
static bool is_like_address(struct slice text)
{
	size_t dots = count_dots(text);

	return consists_of(text, "0123456789.*") && dots > 0 && (contains(text, "*") || dots == 3);
}

/* Suggests 10.*.*.* for 10.*, and 10.0.0.1-10.0.0.9 for 10.0.0.1-9, if that is valid. */
static void suggest_address(struct slip *slip, struct slice first, struct slice last)
{
	struct slice network = {
	    first.data, (size_t)((const char *)memrchr(first.data, '.', first.len) + 1 - first.data)};
	struct buffer *meant = &slip->meant;
	struct ip_range range;

	buffer_add_slice(meant, first);
	if (last.len > 0) {
		buffer_add_text(meant, "-");
		buffer_add_slice(meant, network);
		buffer_add_slice(meant, last);
	}
	for (size_t dots = count_dots(first); last.len == 0 && dots < 3; dots++)
		buffer_add_text(meant, ".*");
	if (!meant->failed && !ip_range_parse((struct slice){meant->data, meant->len}, &range))
		meant->len = 0;
}

/* "10.0.0.0/99", "10.*", "256.0.0.*", "10.0.0.1-9", "10.0.0.1-10.0.0.256" */
static bool is_broken_address(struct slip *slip)
{
	struct slice last = slip->text, bits = slip->text;
	struct slice first = slice_cut(&last, '-'), network = slice_cut(&bits, '/');

	if (is_like_address(network) && bits.len > 0 && consists_of(bits, "0123456789"))
		return true; /* a valid network is no text */
	if (!is_like_address(first) || !consists_of(last, "0123456789.*"))
		return false;
	/* 1.2.3.400 alone may be a version. */
	if (last.len == 0 && !contains(first, "*") && strcmp(slip->condition->attribute, "ip") != 0)
		return false;
	suggest_address(slip, first, last);
	return true;
}

static const struct {
	bool (*recognizes)(struct slip *slip);
	const char *expected;
} slips[] = {
    {begins_with_operator, "one operator"},
    {is_form_with_blanks, "a range without blanks"},
    {has_misplaced_mark, "{~} after the last value of a condition, or nowhere"},
    {is_lone_star, "+ for any value"},
    {is_quoted, "a value without quotes"},
    {lacks_semicolon, "a semicolon before the next condition"},
    {is_broken_address, ADDRESSES},
};

bool koala_warn_of_slip(struct koala *koala, struct slice text, bool is_first,
                        const struct rules_condition *condition)
{
	struct slip slip = {koala, text, condition, is_first, {0}};
	struct phrase meant = {0};
	bool was_found = false;
	size_t i = 0;

	while (i < sizeof slips / sizeof *slips && !was_found) {
		slip.meant.len = 0;
		was_found = slips[i++].recognizes(&slip);
	}
	if (was_found && slip.meant.len > 0)
		meant = phrase_quote((struct slice){slip.meant.data, slip.meant.len});
	if (was_found)
		koala_warning(koala, text.data, "expected %s, found %s, which Weir reads as text%s%s%s",
		              slips[i - 1].expected, phrase_quote(text).text,
		              meant.len ? ": did you mean " : "", meant.text, meant.len ? "?" : "");
	koala->no_memory |= slip.meant.failed;
	buffer_free(&slip.meant);
	return was_found;
}
