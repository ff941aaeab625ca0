/*
 * success_counts.h: counts a key's recent requests, and how many of them the backend accepted, in
 * the cells of a record.
 *
 *     the last passed          tag 32 | 0 32              when 60
 *     parts of the window      tag 32 | number 32         requests 32 | accepted 31 | failed 1
 *     demand, three a slot     tag 32 | number 32         three priorities, 21 each
 *
 * The header counts nothing: it retains the record. A part's number tells whether the part is in
 * the window, so old parts need no cleaning. Parts of another length have other numbers, so that
 * their counts are ignored. Each change is a compare-and-swap of one cell and none depends on
 * another: a process that dies in between leaves one request uncounted.
 */
#ifndef RECORDS_SUCCESS_COUNTS_H
#define RECORDS_SUCCESS_COUNTS_H

#include "algo/outcomes/success_ratio.h"
#include "records/record.h"

/** Advances the state's time to the newest part in the record. */
void success_record_advance(const struct algo_limit *limit, const struct record *record,
                            struct success_state *state);

/** Adds the counts that are in the window at the state's time. */
void success_record_read(const struct algo_limit *limit, const struct record *record,
                         struct success_state *state);

/** The stored cell that says when the last request passed that a draw decided on. */
struct cell success_record_passed(const struct record *record);
/**
 * Stores `now_ns` as the time of the last passed request. Returns false if another thread has
 * changed the cell since `before` was read.
 */
bool success_record_set_passed(const struct record_state *at, struct cell before, uint64_t now_ns);

/** Adds `more` to a part's counts. */
void success_record_add(const struct algo_limit *limit, const struct record_state *at,
                        uint64_t part, struct success_part more);
/** Counts a request of a priority below the highest in its slot of demand. */
void success_record_demand(const struct algo_limit *limit, const struct record_state *at,
                           uint64_t part, unsigned priority);
/** Takes up to `n` requests off a part. Returns how many. */
uint64_t success_record_refund(const struct algo_limit *limit, const struct record_state *at,
                               uint64_t part, uint64_t n);

/** Empties the key's cells of the record. */
void success_record_clear(const struct algo_limit *limit, const struct record_state *at);

/** Whether the header retains the record while the part of now counts, and a header that does. */
bool success_record_header_fits(const struct algo_limit *limit, struct cell header, uint32_t tag,
                                uint64_t now_ns);
struct cell success_record_header(const struct algo_limit *limit, uint32_t tag, uint64_t now_ns);

#endif
