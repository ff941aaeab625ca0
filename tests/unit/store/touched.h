/*
 * touched.h: counts how many cache lines the table, the records and the stores touch, if they are
 * compiled with CELL_COUNTS.
 *
 * An access to a cell counts unless it is to one of the three lines touched last. A header is read
 * before each swap in its record, so one pass over a record counts each line once. The number is in
 * the file that the environment names, or in this process.
 */
#ifndef TOUCHED_H
#define TOUCHED_H

#include <stdint.h>

#define TOUCHED_FILE "WEIR_TEST_TOUCHED"

extern uint64_t *touched_lines;

#endif
