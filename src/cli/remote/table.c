/* table.c: aligns the cells of a table by spaces. */
#include "cli/remote/table.h"

#include <stdarg.h>
#include <stdlib.h>

#include "base/number.h"

#define GAP 2 /* spaces between columns */

/* From U+2E80 to U+FFFF, and from U+10000 on, most characters take two columns, as those of
 * Chinese. */
size_t table_character_width(const unsigned char *p, size_t len)
{
	return 1 + ((len == 3 && *p >= 0xe2 && (*p > 0xe2 || p[1] >= 0xba)) || len == 4);
}

/* The columns that a valid UTF-8 text takes. */
static size_t width_of(struct slice text)
{
	const unsigned char *p = (const unsigned char *)text.data, *end = p + text.len;
	size_t width = 0;

	while (p < end) {
		size_t n = u64_max(utf8_sequence(p, (size_t)(end - p)), 1);

		width += table_character_width(p, n);
		p += n;
	}
	return width;
}

void table_add(struct table *table, struct slice text)
{
	size_t column = table->cell_count % table->columns, start = table->text.len;
	bool is_cut = text.len > TABLE_CELL_MAX;

	text.len = u64_min(text.len, TABLE_CELL_MAX);
	buffer_add_printable(&table->text, text);
	buffer_add_text(&table->text, is_cut ? "..." : "");
	if (!table->text.failed) {
		struct slice cell = {table->text.data + start, table->text.len - start};

		table->widths[column] = u64_max(table->widths[column], width_of(cell));
	}
	buffer_add(&table->text, "", 1);
	table->cell_count++;
}

void table_printf(struct table *table, const char *format, ...)
{
	char *text;
	va_list args;
	int len;

	va_start(args, format);
	len = vasprintf(&text, format, args);
	va_end(args);
	if (len < 0) {
		table->text.failed = true;
		return;
	}
	table_add(table, (struct slice){text, (size_t)len});
	free(text);
}

/* Ends a line, without the blanks before its end. */
static void end_line(struct buffer *out)
{
	while (out->len > 0 && out->data[out->len - 1] == ' ')
		out->len--;
	buffer_add(out, "\n", 1);
}

void table_write(const struct table *table, struct buffer *out)
{
	const char *cell = table->text.data;

	out->failed |= table->text.failed;
	for (size_t i = 0; i < table->cell_count && !out->failed; i++) {
		size_t column = i % table->columns, len = strlen(cell);
		size_t spaces = table->widths[column] - width_of((struct slice){cell, len});
		bool is_last = column + 1 == table->columns;

		if (table->is_number[column])
			buffer_printf(out, "%*s", (int)spaces, "");
		buffer_add(out, cell, len);
		if (is_last)
			end_line(out);
		else
			buffer_printf(out, "%*s", (int)(GAP + (table->is_number[column] ? 0 : spaces)), "");
		cell += len + 1;
	}
}

void table_free(struct table *table)
{
	buffer_free(&table->text);
}
