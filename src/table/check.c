/*
 * check.c: what can be told of a table without knowing its keys or limits.
 *
 * Whether a cell is where its key belongs cannot: the table keeps no names. A
 * tag, however, stands once in a set: all eight cells are among the places of
 * whoever could have put it there a second time.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "table/table.h"

struct checker {
	table_report *report;
	void *context;
	uint64_t defects;
};

__attribute__((format(printf, 2, 3))) static void defect(struct checker *checker,
                                                         const char *format, ...)
{
	char text[160];
	va_list arguments;

	va_start(arguments, format);
	vsnprintf(text, sizeof text, format, arguments);
	va_end(arguments);
	checker->defects++;
	if (checker->report)
		checker->report(checker->context, text);
}

static void expect(struct checker *checker, const char *name, uint64_t expected, uint64_t found)
{
	if (found != expected)
		defect(checker, "%s: expected %llu, found %llu", name, (unsigned long long)expected,
		       (unsigned long long)found);
}

uint64_t table_check_header(const struct table_header *header, uint32_t row_cells,
                            table_report *report, void *context)
{
	struct checker checker = {report, context, 0};

	if (memcmp(header->magic, TABLE_MAGIC, sizeof header->magic) != 0)
		defect(&checker, "magic: expected %s, found other bytes", TABLE_MAGIC);
	if (header->byte_order != TABLE_BYTE_ORDER)
		defect(&checker, "byte order: expected %08x, found %08x", TABLE_BYTE_ORDER,
		       header->byte_order);
	expect(&checker, "version", TABLE_VERSION, header->version);
	expect(&checker, "header size", sizeof *header, header->header_size);
	expect(&checker, "cell size", sizeof(struct cell), header->cell_size);
	expect(&checker, "cells per set", TABLE_SET_CELLS, header->set_cells);
	expect(&checker, "cells per row", row_cells, header->row_cells);
	if (table_size(header->capacity) == 0) {
		defect(&checker, "capacity: expected 1 to %llu keys, found %llu",
		       (unsigned long long)WEIR_CAPACITY_MAX, (unsigned long long)header->capacity);
		return checker.defects;
	}
	expect(&checker, "sets", table_sets(header->capacity), header->sets);
	return checker.defects;
}

static const char *wrong_with(const struct cell *set, unsigned i, uint64_t now_ns,
                              uint64_t horizon_ns)
{
	struct cell cell = set[i];

	if (cell.low == 0 && cell.high == 0)
		return NULL;
	if (cell_tag(cell) == 0)
		return "expected a tag or an empty cell, found no tag";
	if (cell_is_claim(cell))
		return NULL;
	if (cell_ahead_ns(cell, now_ns) > (int64_t)horizon_ns)
		return "expected a time that a limit can reach, found one years further ahead";
	for (unsigned j = 0; j < i; j++)
		if (cell_tag(set[j]) == cell_tag(cell) && !cell_is_claim(set[j]))
			return "expected a tag of its own, found that of a cell before it";
	return NULL;
}

uint64_t table_check_cells(struct table *table, uint64_t now_ns, uint64_t horizon_ns, bool repair,
                           table_report *report, void *context)
{
	struct checker checker = {report, context, 0};

	for (uint64_t s = 0; s < table->sets; s++) {
		struct cell *cells = table->cells + s * TABLE_SET_CELLS, set[TABLE_SET_CELLS];

		for (unsigned i = 0; i < TABLE_SET_CELLS; i++) {
			const char *wrong;

			set[i] = cell_load(&cells[i], table->load_is_atomic);
			wrong = wrong_with(set, i, now_ns, horizon_ns);
			if (!wrong)
				continue;
			defect(&checker, "set %llu, cell %u: %s", (unsigned long long)s, i, wrong);
			if (repair)
				cell_swap(&cells[i], set[i], (struct cell){0, 0});
		}
	}
	return checker.defects;
}
