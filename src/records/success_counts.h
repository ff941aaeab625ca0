/*
 * success_counts.h: the recent requests of a key and those of them that were accepted, in the cells
 * of its record.
 *
 * The key's header counts nothing: it keeps the record. The record has
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
#ifndef RECORDS_ACCEPTS_H
#define RECORDS_ACCEPTS_H

#include "algo/outcomes/success_ratio.h"
#include "records/record.h"

/** Puts the time of the state forward to that of the newest part in the record. */
void success_record_advance(const struct algo_limit *limit, const struct record *record,
                            struct success_state *state);

/** Adds what the record has at the state's time. */
void success_record_read(const struct algo_limit *limit, const struct record *record,
                         struct success_state *state);

/** The note of the last that passed, as it is kept. */
struct cell success_record_passed(const struct record *record);
/** Notes another as the last. Returns false if somebody else has since `before` was read. */
bool success_record_set_passed(const struct record_state *at, struct cell before, uint64_t now_ns);

/** Adds to a part. */
void success_record_add(const struct algo_limit *limit, const struct record_state *at,
                        uint64_t part, struct success_part more);
/** Counts a request of a priority below the highest. */
void success_record_demand(const struct algo_limit *limit, const struct record_state *at,
                           uint64_t part, unsigned priority);
/** Takes up to `n` requests from a part; returns how many. */
uint64_t success_record_refund(const struct algo_limit *limit, const struct record_state *at,
                               uint64_t part, uint64_t n);

/** All that the record has counted is forgotten. */
void success_record_clear(const struct algo_limit *limit, const struct record_state *at);

/** Whether the header keeps the record for as long as a part of now counts; and a header that does.
 */
bool success_record_header_fits(const struct algo_limit *limit, struct cell header, uint32_t tag,
                                uint64_t now_ns);
struct cell success_record_header(const struct algo_limit *limit, uint32_t tag, uint64_t now_ns);

#endif
