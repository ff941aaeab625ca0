#include "store/section.h"

#include <stdio.h>
#include <string.h>

#define PAGE ((size_t)4096)

static size_t pages(size_t size)
{
	return (size + PAGE - 1) / PAGE * PAGE;
}

struct section section_of(uint64_t capacity, unsigned width)
{
	struct section section = {0};

	for (unsigned w = 0; w <= width; w++) {
		uint64_t keys = w == 0 ? capacity : capacity * algo_widths[1] / algo_widths[w];

		section.capacity = w == 0 ? keys : u64_max(keys, SECTION_KEYS_MIN);
		section.offset = section.end;
		section.table_size = table_size(section.capacity);
		section.rows_offset = section.offset + pages(section.table_size);
		section.end = section.rows_offset + pages(table_sets(section.capacity) * TABLE_SET_CELLS *
		                                          algo_widths[w] * sizeof(struct cell));
	}
	return section;
}

void section_format(struct table_header *header, uint64_t capacity, unsigned width,
                    const struct hash_key *secret)
{
	table_format(header, section_of(capacity, width).capacity, algo_widths[width], secret);
}

struct checker {
	unsigned width;
	table_report *report;
	void *context;
};

static void say(void *context, const char *text)
{
	const struct checker *checker = context;
	char line[200];

	if (!checker->report)
		return;
	if (checker->width == 0) {
		checker->report(checker->context, text);
		return;
	}
	snprintf(line, sizeof line, "rows of %u: %s", algo_widths[checker->width], text);
	checker->report(checker->context, line);
}

static struct table_header *header_of(const void *memory, const struct section *section)
{
	return (void *)((char *)memory + section->offset);
}

static uint64_t check_wide(const void *memory, size_t size, struct checker *checker)
{
	const struct table_header *first = memory, *header;
	struct section section = section_of(first->capacity, checker->width);
	uint64_t defects;

	if (size < section.offset + sizeof *header)
		return 0; /* which has been said of the whole store */
	header = header_of(memory, &section);
	defects = table_check_header(header, algo_widths[checker->width], say, checker);
	if (defects == 0 && header->capacity != section.capacity) {
		say(checker, "capacity: expected what follows from the store's, found another");
		defects++;
	}
	if (defects == 0 && memcmp(&header->secret, &first->secret, sizeof first->secret) != 0) {
		say(checker, "secret: expected the store's, found another");
		defects++;
	}
	return defects;
}

uint64_t section_check(const void *memory, size_t size, table_report *report, void *context)
{
	const struct table_header *header = memory;
	struct checker checker = {0, report, context};
	uint64_t defects = table_check_header(header, 0, say, &checker);
	char text[120];
	size_t expected;

	if (defects > 0)
		return defects;
	expected = section_store_size(header->capacity);
	if (size != expected) {
		snprintf(text, sizeof text, "size: expected %zu bytes for %llu keys, found %zu", expected,
		         (unsigned long long)header->capacity, size);
		say(&checker, text);
		defects++;
	}
	for (checker.width = 1; checker.width < ALGO_WIDTHS; checker.width++)
		defects += check_wide(memory, size, &checker);
	return defects;
}

bool section_repair(void *memory, size_t size)
{
	struct table_header *first = memory;
	struct checker checker = {0};

	if (table_check_header(first, 0, NULL, NULL) > 0 &&
	    (!table_repair_header(first) || table_check_header(first, 0, NULL, NULL) > 0))
		return false;
	for (checker.width = 1; checker.width < ALGO_WIDTHS; checker.width++) {
		struct table_header *header;
		struct section section = section_of(first->capacity, checker.width);
		uint64_t evictions, claims;

		if (check_wide(memory, size, &checker) == 0)
			continue;
		header = header_of(memory, &section);
		evictions = header->evictions;
		claims = header->claims;
		memset(header, 0, sizeof *header);
		section_format(header, first->capacity, checker.width, &first->secret);
		header->evictions = evictions;
		header->claims = claims;
	}
	return true;
}
