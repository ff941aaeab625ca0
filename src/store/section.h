/*
 * section.h: where in a store's memory which table is.
 *
 *     one-word states: header, cells | a limit's: header, cells, records | another's ...
 *
 * A store begins with the table of all states of one word. Each limit whose states are
 * wider has a section of its own, with as many records as its table has cells; in a file the
 * sections follow one another in the order in which their limits came. All begin on pages,
 * and each header says how long its section is, so the headers are a chain. The first says
 * how far it goes at least: what is behind that and has no sound header is nothing.
 */
#ifndef STORE_SECTION_H
#define STORE_SECTION_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "algo/algo.h"
#include "table/table.h"

/* Tables of limits in one store, and those that one limit may have had one after the other. */
#define SECTION_MAX     1024
#define SECTION_FORMERS 15

/* The identity of a former table of one-word states: of no limit, for theirs are hashes. */
#define SECTION_SHARED UINT64_C(0x736861726564206b)

/* Keys that a limit has room for at least, unless it says otherwise. */
#define SECTION_KEYS_MIN 40

struct section {
	uint64_t identity; /* 0 of the first, and of one whose header was lost */
	uint64_t capacity;
	uint32_t record_cells;
	uint64_t size; /* of all, in whole pages */
	bool is_draining; /* a former table: its keys remain in it while they live */
};

/** Bytes before the records, and of all of a section of so many keys (in range) and such records.
 */
size_t section_records_offset(uint64_t capacity);
size_t section_size(uint64_t capacity, uint32_t record_cells);

/** The section of a limit with records of `width` cells; `keys` 0: a store of `capacity` keys says.
 */
struct section section_of(uint64_t identity, unsigned width, uint64_t keys, uint64_t capacity);

/** The header of a new section. `header` is zeroed. */
void section_format(struct table_header *header, const struct section *section,
                    const struct hash_key *secret);

/* A walk along the chain. */
struct section_walk {
	struct section section;     /* that begins at `offset`, if there is one */
	uint64_t offset, defects;   /* so far */
	bool done;                  /* there is none, or (a defect) none that can be trusted */
	struct table_header header; /* of the section, as it was read */
	struct hash_key secret;     /* the store's, as is: */
	uint64_t end;               /* where the last section ends, at least */
};

/**
 * Takes walk->header, what is at walk->offset (padded with zeros at the end of a file of
 * `file_size` bytes), for the next section; a walk begins zeroed. `report` may be NULL.
 */
void section_check_next(struct section_walk *walk, uint64_t file_size, table_report *report,
                        void *context);

/** Reads the header at walk->offset from a whole store in memory. */
void section_read_header(struct section_walk *walk, const void *memory, size_t size);

/** All that keeps a store from being used. Returns the number of defects. */
uint64_t section_check(const void *memory, size_t size, table_report *report, void *context);

/**
 * Puts walk->header right, in which something may be wrong: from its copy, or for a section
 * that can't be known any more as one that is nobody's, up to the next that is sound. False
 * when there is nothing left to go by: the first header is lost, or all behind this place.
 */
bool section_repair(struct section_walk *walk, const void *memory, size_t size);

#endif
