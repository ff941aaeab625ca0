/*
 * check_table.c: finds and repairs damage in a key table without knowing its keys or limits.
 *
 * A cell has a tag, which is a part of the key's hash, and a time. A claim is a cell that reserves
 * a place while a thread inserts a key. The table has no names of keys, so no check can tell
 * whether a cell is where its key belongs. But a tag must not stand twice in a set, because all
 * eight cells are candidates of the same keys.
 */
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "table/table.h"

/*
 * A claim expires after a millisecond by the clock that made it. For calendar windows that is the
 * wall clock, which may have been set back since, but hardly by days.
 */
#define CLAIM_MAX_NS (2 * (int64_t)NS_PER_DAY)

struct checker {
	table_report *report;
	void *context;
	uint64_t defects;
};

/* Reports and counts a defect. */
__attribute__((format(printf, 2, 3))) static void report_defect(struct checker *checker,
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

static void expect_number(struct checker *checker, const char *name, uint64_t expected,
                          uint64_t found)
{
	if (found != expected)
		report_defect(checker, "%s: expected %llu, found %llu", name, (unsigned long long)expected,
		              (unsigned long long)found);
}

/* Copies a header without its reserved fields. Only the first header of a store has a clock. */
static void copy_known(struct table_header *known, const struct table_header *header,
                       bool has_clock)
{
	memset(known, 0, sizeof *known);
	memcpy(known, header, TABLE_FIXED);
	if (has_clock) {
		known->clock = header->clock;
		known->recorded_ns = header->recorded_ns;
		known->end = header->end;
	}
	known->checksum = header->checksum;
	known->is_former = header->is_former;
	known->evictions = header->evictions;
	known->claims = header->claims;
	memcpy(known->fixed_copy, header->fixed_copy, TABLE_FIXED);
	known->checksum_copy = header->checksum_copy;
}

/* Reports a header of another release. That has other fields, so nothing else of it is checked. */
static bool is_other_version(struct checker *checker, const struct table_header *header)
{
	bool other = memcmp(header->magic, TABLE_MAGIC, sizeof header->magic) == 0 &&
	             header->byte_order == TABLE_BYTE_ORDER && header->version != TABLE_VERSION;

	if (other)
		report_defect(
		    checker,
		    "version: expected %d, found %u, made by another release of weir: use that one, or "
		    "remove the file and begin with empty counts",
		    TABLE_VERSION, header->version);
	return other;
}

static void check_sizes(struct checker *checker, const struct table_header *header)
{
	expect_number(checker, "header size", sizeof *header, header->header_size);
	expect_number(checker, "cell size", sizeof(struct cell), header->cell_size);
	expect_number(checker, "cells per set", TABLE_SET_CELLS, header->set_cells);
	if (header->is_draining > 1)
		/* A table that drains keeps its keys while they live. */
		report_defect(checker, "keys that stay: expected 0 or 1, found %u", header->is_draining);
	if (table_size(header->capacity) == 0)
		report_defect(checker, "capacity: expected 1 to %llu keys, found %llu",
		              (unsigned long long)WEIR_CAPACITY_MAX, (unsigned long long)header->capacity);
	else
		expect_number(checker, "sets", table_sets(header->capacity), header->sets);
}

/* Returns the number of defects. */
uint64_t table_check_header(const struct table_header *header, bool has_clock, table_report *report,
                            void *context)
{
	struct checker checker = {report, context, 0};
	struct table_header known;

	if (is_other_version(&checker, header))
		return checker.defects;
	copy_known(&known, header, has_clock);
	if (memcmp(header->magic, TABLE_MAGIC, sizeof header->magic) != 0)
		report_defect(&checker, "magic: expected %s, found other bytes", TABLE_MAGIC);
	if (header->byte_order != TABLE_BYTE_ORDER)
		report_defect(&checker, "byte order: expected %08x, found %08x", TABLE_BYTE_ORDER,
		              header->byte_order);
	check_sizes(&checker, header);
	if (header->checksum != table_checksum(header))
		report_defect(&checker, "checksum: expected %016llx, found %016llx",
		              (unsigned long long)table_checksum(header),
		              (unsigned long long)header->checksum);
	if (memcmp(header->fixed_copy, header, TABLE_FIXED) != 0 ||
	    header->checksum_copy != header->checksum)
		report_defect(&checker, "copy of the header: expected the same bytes, found others");
	if (memcmp(header, &known, sizeof *header) != 0)
		report_defect(&checker, "reserved: expected zeros, found other bytes");
	return checker.defects;
}

/*
 * Restores the fields or their copy, whichever has lost its checksum, and zeroes the reserved
 * bytes. Returns false if both have lost it.
 */
bool table_repair_header(struct table_header *header, bool has_clock)
{
	struct table_header known;

	copy_known(&known, header, has_clock);
	if (known.checksum != table_checksum(&known)) {
		if (known.checksum_copy != table_checksum(known.fixed_copy))
			return false;
		memcpy(&known, known.fixed_copy, TABLE_FIXED);
		known.checksum = known.checksum_copy;
	}
	memcpy(known.fixed_copy, &known, TABLE_FIXED);
	known.checksum_copy = known.checksum;
	memcpy(header, &known, sizeof known);
	return true;
}

/* Returns what is wrong with cell `i` of a set, or NULL. */
static const char *wrong_with(const struct cell *set, unsigned i, uint64_t now_ns,
                              uint64_t horizon_ns)
{
	struct cell cell = set[i];

	if (cell.low == 0 && cell.high == 0)
		return NULL;
	if (cell_tag(cell) == 0)
		return "expected a tag or an empty cell, found no tag";
	if (cell_is_claim(cell))
		return cell_ahead_ns(cell, now_ns) > CLAIM_MAX_NS
		           ? "expected a claim of a millisecond, found one of days"
		           : NULL;
	if (cell_ahead_ns(cell, now_ns) > (int64_t)horizon_ns)
		return "expected a time that a limit can reach, found one years further ahead";
	for (unsigned j = 0; j < i; j++)
		if (cell_tag(set[j]) == cell_tag(cell) && !cell_is_claim(set[j]))
			return "expected a tag of its own, found that of a cell before it";
	return NULL;
}

/* Checks all cells, and with `repair` empties the damaged ones. Returns the number of defects. */
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
			report_defect(&checker, "set %llu, cell %u: %s", (unsigned long long)s, i, wrong);
			if (repair)
				cell_swap(&cells[i], set[i], (struct cell){0, 0});
		}
	}
	return checker.defects;
}
