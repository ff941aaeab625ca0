/*
 * section.h: lays out the tables of a store in its memory or file, and checks their headers.
 *
 *     one-word states: header, cells | a limit's: header, cells, records | another limit's ...
 *
 * A section is the memory of one table. The first section has the states of one word of all limits.
 * Each limit with wide states has a section of its own, with a record for each cell. In a file the
 * sections follow one another in the order in which they were added. Each begins on a page and has
 * its size in its header, so the headers form a list. The first header has the end up to which
 * sections exist for sure. Bytes behind that without a sound header are no section.
 */
#ifndef STORE_SECTION_H
#define STORE_SECTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "algo/algo.h"
#include "table/table.h"

/* The most tables of limits in one store, and the most former tables of one limit. */
#define SECTION_MAX     1024
#define SECTION_FORMERS 15

/* The identity of a former table of one-word states. No limit has it, since theirs are hashes. */
#define SECTION_SHARED UINT64_C(0x736861726564206b)

/* The least capacity of a limit that has no `keys`. */
#define SECTION_KEYS_MIN 40

struct section {
	uint64_t identity; /* the limit's; 0 in the first section, and in one whose header was lost */
	uint64_t capacity;
	uint32_t record_cells;
	uint64_t size;    /* bytes of the section: whole pages */
	bool is_draining; /* a former table: its keys remain in it while they live */
};

/** Bytes before the records, and of all of a section of so many keys (in range) and such records.
 */
size_t section_records_offset(uint64_t capacity);
size_t section_size(uint64_t capacity, uint32_t record_cells);

/**
 * The section of a limit whose records have `width` cells. If `keys` is 0, the number of keys
 * follows from the store's capacity.
 */
struct section section_of(uint64_t identity, unsigned width, uint64_t keys, uint64_t capacity);

/** Makes the header of a new section. `header` is zeroed before. */
void section_format(struct table_header *header, const struct section *section,
                    const struct hash_key *secret);

/* An iteration over the sections of a store. It begins zeroed. */
struct section_walk {
	struct section section;     /* the section at `offset`, if there is one */
	uint64_t offset, defects;   /* so far */
	bool is_over;               /* there is no further section, or none that can be trusted */
	struct table_header header; /* the bytes at `offset`, set by the caller */
	struct hash_key secret;     /* from the first header, as `end` */
	uint64_t end;               /* the last section ends here, or further on */
};

/**
 * Checks walk->header, which the caller has read at walk->offset and padded with zeros at the end
 * of the file, and sets walk->section and walk->is_over. `report` may be NULL.
 */
void section_check_next(struct section_walk *walk, uint64_t file_size, table_report *report,
                        void *context);

/** Sets walk->header from a whole store in memory. */
void section_read_header(struct section_walk *walk, const void *memory, size_t size);

/** Reports all defects of headers that prevent a store's use, and returns their number. */
uint64_t section_check(const void *memory, size_t size, table_report *report, void *context);

/**
 * Repairs walk->header from its copy. If that is damaged, too, makes a section without owner that
 * reaches up to the next sound header. Returns false if this is impossible: the first header is
 * lost, or there is no sound header behind this one.
 */
bool section_repair(struct section_walk *walk, const void *memory, size_t size);

#endif
