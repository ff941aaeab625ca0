/*
 * koala_text.c: helps the parsers of Koala's rule files with the text of a line: reads numbers from
 * it, copies parts, and stores remarks (errors and warnings) with the line and column of a part.
 */
#include <stdarg.h>
#include <stdio.h>

#include "base/error.h"
#include "readers/koala/koala.h"
#include "rules/remark.h"

unsigned koala_column(const struct koala *koala, const char *at)
{
	unsigned column = 1;

	for (const char *p = koala->line.data; p < at; p++)
		column += (*p & 0xc0) != 0x80; /* count each character of UTF-8 once */
	return column;
}

__attribute__((format(printf, 4, 0))) static void
add_remark(struct koala *koala, const char *at, bool is_error, const char *format, va_list args)
{
	/* Counting a column takes time by the line's length, so skip it for remarks beyond the limit.
	 */
	bool will_be_stored = koala->config->remarks.count <= REMARKS_MAX;
	const struct weir_config_remark about = {.path = koala->file,
	                                         .line = at ? koala->line_number : 0,
	                                         .column =
	                                             at && will_be_stored ? koala_column(koala, at) : 0,
	                                         .is_error = is_error};
	char text[512];

	vsnprintf(text, sizeof text, format, args);
	if (remark_add(koala->config, &about, "%s", text) != WEIR_OK)
		koala->no_memory = true;
}

void koala_error(struct koala *koala, const char *at, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	add_remark(koala, at, true, format, args);
	va_end(args);
}

void koala_warning(struct koala *koala, const char *at, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	add_remark(koala, at, false, format, args);
	va_end(args);
}

void koala_expected(struct koala *koala, struct slice found, const char *what)
{
	if (found.len == 0)
		koala_error(koala, found.data, "expected %s, found nothing", what);
	else
		koala_error(koala, found.data, "expected %s, found %s", what, phrase_quote(found).text);
}

bool koala_is_end_of_line(struct slice rest)
{
	rest = slice_trim(rest);
	return rest.len == 0 || *rest.data == '#';
}

bool koala_read_number(struct koala *koala, struct slice text, uint64_t min, uint64_t max,
                       uint64_t *out)
{
	char expected[64];

	if (parse_u64(text, out) && *out >= min && *out <= max)
		return true;
	snprintf(expected, sizeof expected, "a whole number from %llu to %llu", (unsigned long long)min,
	         (unsigned long long)max);
	koala_expected(koala, text, expected);
	return false;
}

char *koala_copy(struct koala *koala, struct slice text)
{
	char *copy = arena_copy(&koala->config->arena, text);

	if (!copy)
		koala->no_memory = true;
	return copy;
}
