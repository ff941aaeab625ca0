/*
 * section.c: makes, checks and repairs the headers of a store's sections. A section is the memory
 * of one table of keys: a header, the table's cells, and behind these perhaps a record of further
 * cells for each. Sections follow one another in a file; a *walk* visits them by the sizes in their
 * headers. The identity in a header tells the kind of a section:
 *
 *     0, in the first section     the table of all limits whose states are one word
 *     0, in another section       lost: header and copy were damaged, so nobody owns the section
 *     SECTION_SHARED              a former table of all limits; it drains, since no key is added
 *     any other                   the table of one limit, with records
 */
#include "store/section.h"

#include <stdio.h>
#include <string.h>

#include "algo/record_kinds.h"

#define PAGE ((size_t)4096)

static size_t round_up_to_pages(size_t size)
{
	return (size + PAGE - 1) / PAGE * PAGE;
}

size_t section_records_offset(uint64_t capacity)
{
	return round_up_to_pages(table_size(capacity));
}

size_t section_size(uint64_t capacity, uint32_t record_cells)
{
	return section_records_offset(capacity) +
	       round_up_to_pages(table_sets(capacity) * TABLE_SET_CELLS * record_cells *
	                         sizeof(struct cell));
}

/* The number of keys of a limit that sets none: those that take the same bytes at any width. */
static uint64_t default_keys(uint64_t capacity, unsigned width)
{
	return u64_max(capacity * ALGO_WIDTH_LEAST / width, SECTION_KEYS_MIN);
}

struct section section_of(uint64_t identity, unsigned width, uint64_t keys, uint64_t capacity)
{
	keys = keys ? keys : default_keys(capacity, width);
	return (struct section){identity, keys, width, section_size(keys, width)};
}

void section_format(struct table_header *header, const struct section *section,
                    const struct hash_key *secret)
{
	const struct table_shape shape = {section->capacity, section->identity, section->record_cells,
	                                  section->size, section->is_draining};

	table_format(header, &shape, secret);
}

/* Where report_defect() sends the defects of the section at `offset`. */
struct reporter {
	uint64_t offset;
	table_report *report;
	void *context;
};

static void report_defect(void *context, const char *text)
{
	const struct reporter *reporter = context;
	char line[240];

	if (!reporter->report)
		return;
	if (reporter->offset > 0) {
		snprintf(line, sizeof line, "section at byte %llu: %s",
		         (unsigned long long)reporter->offset, text);
		text = line;
	}
	reporter->report(reporter->context, text);
}

static bool is_first(const struct section_walk *walk)
{
	return walk->offset == 0;
}

/* A lost section reaches up to the next sound header. */
static bool has_right_size(const struct table_header *header, bool is_lost, uint64_t own_size)
{
	if (is_lost)
		return header->size >= own_size && header->size % PAGE == 0;
	return header->size == own_size;
}

/* Checks kind and size of a section whose header is sound otherwise. Returns how many defects. */
static uint64_t check_shape(const struct section_walk *walk, struct reporter *reporter)
{
	const struct table_header *header = &walk->header;
	bool is_lost = !is_first(walk) && header->identity == 0;
	bool is_former = header->identity == SECTION_SHARED;
	uint64_t size = section_size(header->capacity, header->record_cells), defects = 0;
	char text[120];

	if (is_first(walk) &&
	    (header->identity != 0 || header->record_cells != 0 || header->is_draining)) {
		report_defect(reporter, "expected the table of all limits, found that of one");
		defects++;
	}
	if (is_former && (header->record_cells != 0 || !header->is_draining)) {
		report_defect(reporter, "expected a former table of all limits, found another");
		defects++;
	}
	if (!has_right_size(header, is_lost, size)) {
		snprintf(text, sizeof text, "size: expected %llu bytes, found %llu",
		         (unsigned long long)size, (unsigned long long)header->size);
		report_defect(reporter, text);
		defects++;
	}
	if (!is_first(walk) && memcmp(&header->secret, &walk->secret, sizeof walk->secret) != 0) {
		report_defect(reporter, "secret: expected the store's, found another");
		defects++;
	}
	return defects;
}

/* Checks that the file is as long as the section. Returns how many defects. */
static uint64_t check_end(const struct section_walk *walk, uint64_t file_size,
                          struct reporter *reporter)
{
	uint64_t end = walk->offset + walk->header.size;
	char text[120];

	if (end <= file_size)
		return 0;
	snprintf(text, sizeof text, "size: expected a file of at least %llu bytes, found %llu",
	         (unsigned long long)end, (unsigned long long)file_size);
	report_defect(reporter, text);
	return 1;
}

static uint64_t check_section(const struct section_walk *walk, struct reporter *reporter)
{
	uint64_t defects = table_check_header(&walk->header, is_first(walk), report_defect, reporter);

	if (defects == 0)
		defects = check_shape(walk, reporter);
	return defects;
}

/*
 * Checks the header at walk->offset. A defect in a section that must exist is reported; the bytes
 * behind the last section may be anything, and only end the walk.
 */
void section_check_next(struct section_walk *walk, uint64_t file_size, table_report *report,
                        void *context)
{
	const struct table_header *header = &walk->header;
	bool must_exist = is_first(walk) || walk->offset < walk->end;
	struct reporter reporter = {walk->offset, must_exist ? report : NULL, context};
	uint64_t defects = check_section(walk, &reporter);

	walk->is_over = defects > 0;
	if (defects == 0 && is_first(walk)) {
		walk->secret = header->secret;
		walk->end = header->end;
	}
	if (defects == 0) {
		defects = check_end(walk, file_size, &reporter);
		walk->is_over = defects > 0 && !must_exist; /* a sound header says where the next one is */
	}
	walk->defects += must_exist ? defects : 0;
	walk->section = (struct section){header->identity, header->capacity, header->record_cells,
	                                 header->size, header->is_draining != 0};
}

void section_read_header(struct section_walk *walk, const void *memory, size_t size)
{
	size_t len = u64_min(sizeof walk->header, sat_sub(size, walk->offset));

	memset(&walk->header, 0, sizeof walk->header);
	memcpy(&walk->header, (const char *)memory + (len > 0 ? walk->offset : 0), len);
}

uint64_t section_check(const void *memory, size_t size, table_report *report, void *context)
{
	struct section_walk walk = {0};

	for (;; walk.offset += walk.section.size) {
		section_read_header(&walk, memory, size);
		section_check_next(&walk, size, report, context);
		if (walk.is_over)
			return walk.defects;
	}
}

/* Repairs a header by its copy. Returns whether it is sound. */
static bool repair_by_copy(struct section_walk *walk)
{
	struct reporter nobody = {0};

	return table_repair_header(&walk->header, is_first(walk)) && check_section(walk, &nobody) == 0;
}

/*
 * Repairs walk->header from its copy. If that is damaged, too, makes a section without owner
 * (`lost`) that reaches up to the next sound header. Returns false if there is none.
 */
bool section_repair(struct section_walk *walk, const void *memory, size_t size)
{
	struct section lost = {.capacity = 1, .size = section_size(1, 0)};

	if (repair_by_copy(walk))
		return true;
	if (is_first(walk))
		return false;
	for (; walk->offset + lost.size < size; lost.size += PAGE) {
		struct section_walk next = *walk;

		next.offset += lost.size;
		section_read_header(&next, memory, size);
		if (!repair_by_copy(&next))
			continue;
		memset(&walk->header, 0, sizeof walk->header);
		section_format(&walk->header, &lost, &walk->secret);
		return true;
	}
	return false;
}
