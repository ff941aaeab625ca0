/*
 * koala_slip.c: warns of texts in conditions that are probably typing errors.
 *
 * A value that is no range is a literal, so a typing error makes a condition that no request meets,
 * or a blacklist that lets all requests pass. The warning says how the value was probably meant.
 */
#include <stdio.h>

#include "base/network/ip.h"
#include "readers/koala/koala.h"
#include "rules/form.h"

#define ADDRESSES "an address like 10.0.*.*, or a range like 10.0.0.1-10.0.0.9 or 10.0.0.0/8"

/* A value that is taken as text, and how it was probably meant. */
struct slip {
	struct koala *koala;
	struct slice text;
	const struct rules_condition *condition;
	bool is_first; /* of the condition's list */
	struct buffer meant;
};

static bool is_blank(char c)
{
	return c == ' ' || c == '\t';
}

static bool is_of_name(char c)
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

static bool has(struct slice text, const char *part)
{
	return text.len > 0 && memmem(text.data, text.len, part, strlen(part)) != NULL;
}

/* "=5" of a==5, "!x" of a=!x. Text that just begins like that has more behind it: "@bob", ">b". */
static bool begins_with_operator(struct slip *slip)
{
	static const struct slice operators[] = {SLICE("!="), SLICE("="), SLICE("!@"), SLICE("!"),
	                                         SLICE("@"),  SLICE(">"), SLICE("<")};
	struct slice rest = slip->text;
	const char *name;
	bool negated = slip->condition->negated;
	int64_t number;
	size_t i = 0;

	while (i < sizeof operators / sizeof *operators && !slice_skip(&rest, operators[i]))
		i++;
	rest = slice_trim(rest);
	if (i == sizeof operators / sizeof *operators || rest.len == 0)
		return false;
	name = operators[i].data;
	if (strchr(name, '@') && !koala_dictionary(slip->koala, rest))
		return false;
	if (strchr("<>", *name) && !parse_i64(rest, &number))
		return false;
	if (strcmp(name, "!") == 0 || (*name == '=' && negated))
		name = "!=";
	buffer_printf(&slip->meant, "%s%s", slip->condition->attribute, name);
	buffer_add_slice(&slip->meant, rest);
	return true;
}

/* "1 - 3", "10.0.0.0 / 8" */
static bool is_form_with_blanks(struct slip *slip)
{
	struct rules_value value = {.test = RULES_EQUAL};
	const char *expected;

	if (!has(slip->text, " ") && !has(slip->text, "\t"))
		return false;
	for (size_t i = 0; i < slip->text.len; i++)
		if (!is_blank(slip->text.data[i]))
			buffer_add(&slip->meant, &slip->text.data[i], 1);
	value.text = (struct slice){slip->meant.data, slip->meant.len};
	return !slip->meant.failed && form_read(&value, false, &expected) != FORM_TEXT;
}

/* "1{~" */
static bool has_half_a_mark(struct slip *slip)
{
	return has(slip->text, "{~") || has(slip->text, "~}");
}

static bool is_star(struct slip *slip)
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

/* "ask uid=5" and, behind a comma, "uid=5": a semicolon is missing. */
static bool has_a_condition(struct slip *slip)
{
	struct slice text = slip->text;
	size_t sign = 0, end, begin;

	while (sign < text.len && !memchr("=<>@", text.data[sign], 4))
		sign++;
	end = sign > 0 && sign < text.len && text.data[sign - 1] == '!' ? sign - 1 : sign;
	while (end > 0 && is_blank(text.data[end - 1]))
		end--;
	for (begin = end; begin > 0 && is_of_name(text.data[begin - 1]); begin--)
		;
	if (sign + 1 >= text.len || begin == end || text.data[sign + 1] == '=')
		return false;
	if (begin == 0 ? slip->is_first : !is_blank(text.data[begin - 1]))
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

/* Digits, dots and stars that only an address has. */
static bool is_like_address(struct slice text)
{
	size_t dots = count_dots(text);

	return consists_of(text, "0123456789.*") && dots > 0 && (has(text, "*") || dots == 3);
}

/* 10.* as 10.*.*.*, 10.0.0.1-9 as 10.0.0.1-10.0.0.9; nothing where that makes no address. */
static void complete(struct slip *slip, struct slice first, struct slice last)
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

/* "10.*", "256.0.0.*", "10.0.0.1-9", "10.0.0.1-10.0.0.256" */
static bool is_broken_address(struct slip *slip)
{
	struct slice last = slip->text, bits = slip->text;
	struct slice first = slice_cut(&last, '-'), network = slice_cut(&bits, '/');

	if (is_like_address(network) && bits.len > 0 && consists_of(bits, "0123456789"))
		return true;
	if (!is_like_address(first) || !consists_of(last, "0123456789.*"))
		return false;
	/* 1.2.3.400 alone may be a version. */
	if (last.len == 0 && !has(first, "*") && strcmp(slip->condition->attribute, "ip") != 0)
		return false;
	complete(slip, first, last);
	return true;
}

static const struct {
	bool (*is)(struct slip *slip); /* and fills `meant`, where that is known */
	const char *expected;
} slips[] = {
    {begins_with_operator, "one operator"},
    {is_form_with_blanks, "a range without blanks"},
    {has_half_a_mark, "{~} after the last value of a condition, or nowhere"},
    {is_star, "+ for any value"},
    {is_quoted, "a value without quotes"},
    {has_a_condition, "a semicolon before the next condition"},
    {is_broken_address, ADDRESSES},
};

bool koala_warn_of_slip(struct koala *koala, struct slice text, bool is_first,
                        const struct rules_condition *condition)
{
	struct slip slip = {koala, text, condition, is_first, {0}};
	struct phrase meant = {0};
	bool found = false;
	size_t i = 0;

	while (i < sizeof slips / sizeof *slips && !found) {
		slip.meant.len = 0;
		found = slips[i++].is(&slip);
	}
	if (found && slip.meant.len > 0)
		meant = phrase_quote((struct slice){slip.meant.data, slip.meant.len});
	if (found)
		koala_warning(koala, text.data, "expected %s, found %s, which Weir reads as text%s%s%s",
		              slips[i - 1].expected, phrase_quote(text).text,
		              meant.len ? ": did you mean " : "", meant.text, meant.len ? "?" : "");
	koala->no_memory |= slip.meant.failed;
	buffer_free(&slip.meant);
	return found;
}
