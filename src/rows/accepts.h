/*
 * accepts.h: the recent requests of a key and those of them that were accepted, in the cells of its
 * row.
 *
 * The key's head counts nothing: it keeps the row. The row has
 *
 *     the last that passed     tag 32 | 0 32              when 60
 *     parts                    tag 32 | number 32         requests 32 | accepts 31 | failed 1
 *     demand, three a slot     tag 32 | number 32         three priorities, 21 each
 *
 * A part's number tells whether it is in the window, so old parts need no cleaning. With another
 * length of parts, numbers begin elsewhere, so such counts are not seen. Each change is a
 * compare-and-swap of one cell, and none depends on another: a process that dies in between has
 * counted one request less.
 */
#ifndef ROWS_ACCEPTS_H
#define ROWS_ACCEPTS_H

#include "algo/outcomes/success_ratio.h"
#include "rows/rows.h"

/** Puts the time of the state forward to that of the newest part in the row. */
void accepts_row_time(const struct algo_limit *limit, const struct row *row,
                      struct accepts_state *state);

/** Adds what the row has at the state's time. */
void accepts_row_look(const struct algo_limit *limit, const struct row *row,
                      struct accepts_state *state);

/** The note of the last that passed, as it is kept. */
struct cell accepts_row_passed(const struct row *row);
/** Notes another as the last. Returns false if somebody else has since `before` was read. */
bool accepts_row_pass(const struct row_state *at, struct cell before, uint64_t now_ns);

/** Adds to a part. */
void accepts_row_add(const struct algo_limit *limit, const struct row_state *at, uint64_t part,
                     struct accepts_part more);
/** Counts a request of a priority below the highest. */
void accepts_row_demand(const struct algo_limit *limit, const struct row_state *at, uint64_t part,
                        unsigned priority);
/** Takes up to `n` requests from a part; returns how many. */
uint64_t accepts_row_take(const struct algo_limit *limit, const struct row_state *at, uint64_t part,
                          uint64_t n);

/** All that the row has counted is forgotten. */
void accepts_row_clear(const struct algo_limit *limit, const struct row_state *at);

/** Whether the head keeps the row for as long as a part of now counts; and a head that does. */
bool accepts_row_fits(const struct algo_limit *limit, struct cell head, uint32_t tag,
                      uint64_t now_ns);
struct cell accepts_row_head(const struct algo_limit *limit, uint32_t tag, uint64_t now_ns);

#endif
