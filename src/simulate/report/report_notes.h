/* report_notes.h: says in a report what was unusual in a log. */
#ifndef SIMULATE_REPORT_NOTES_H
#define SIMULATE_REPORT_NOTES_H

#include "simulate/report/report.h"

/** Appends a line for each kind of request that was moved, estimated, incomplete or left out. */
void report_notes(const struct report *report, struct buffer *out);

/**
 * If rules decided and no request had this field of replay->fields: the number of rules that match
 * or count by the field. Otherwise 0.
 */
size_t report_rules_missing(const struct report *report, size_t field);

#endif
