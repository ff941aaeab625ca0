/* report.h: what came of a replay, for people, programs and browsers. */
#ifndef SIMULATE_REPORT_H
#define SIMULATE_REPORT_H

#include <stdio.h>

#include "simulate/replay.h"

struct report {
	const struct replay *replay;
	const char *source; /* a trace's path, or a pattern's name */
	uint64_t malformed; /* lines */
	bool as_rules;      /* one lane of rules, not limits side by side */
};

#define REPORT_TOP 10 /* keys listed of those that are denied most */

/** One JSON object. */
void report_json(const struct report *report, struct buffer *out);

/** A table with small charts. `plain`: no colours, no characters but ASCII. */
void report_text(const struct report *report, bool plain, struct buffer *out);

/** A page that needs nothing else. */
void report_html(const struct report *report, struct buffer *out);

#endif
