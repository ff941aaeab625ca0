/*
 * table.h: prints rows of texts, which may come from a server, in columns that are as wide as their
 * longest text.
 */
#ifndef CLI_REMOTE_TABLE_H
#define CLI_REMOTE_TABLE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "base/buffer.h"

#define TABLE_COLUMNS_MAX 8
#define TABLE_CELL_MAX    300 /* bytes of a text that are shown */

/* Zeroed at first, but for `columns`. */
struct table {
	size_t columns;
	struct buffer text; /* all cells, each ended by a NUL */
	size_t cell_count;
	size_t widths[TABLE_COLUMNS_MAX];  /* in characters */
	bool is_number[TABLE_COLUMNS_MAX]; /* aligned to the right */
};

/** Appends a cell, row by row. Control characters are escaped; the memory is bounded by the caller.
 */
void table_add(struct table *table, struct slice text);
void table_printf(struct table *table, const char *format, ...)
    __attribute__((format(printf, 2, 3)));
/** Appends the rows to `out`, each as a line. Sets out->failed if memory was short. */
void table_write(const struct table *table, struct buffer *out);
/** The columns of a terminal that a character of `len` bytes takes. */
size_t table_character_width(const unsigned char *p, size_t len);
void table_free(struct table *table);

#endif
