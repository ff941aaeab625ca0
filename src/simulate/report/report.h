/* report.h: what came of a replay, for people, programs and browsers. */
#ifndef SIMULATE_REPORT_H
#define SIMULATE_REPORT_H

#include <stdio.h>

#include "simulate/replay.h"

/* The denials of a limit of `count` per period. */
struct report_point {
	uint64_t count;
	uint64_t requests, denied;
	uint64_t keys, hit; /* that sent requests; of them, those with a denied one */
};

/* The smallest limit that denies at most a share, and what others would deny. */
struct report_suggestion {
	const char *limit;                 /* as a rule file has it: "NAME: {...}" */
	uint64_t count;                    /* of its rate */
	bool unsure;                       /* a much smaller one may do, too: not all were tried */
	bool by_requests;                  /* the share is one of requests, not of keys */
	double share;                      /* 0.001 is 0.1% */
	const struct report_point *points; /* the curve, by count; that of the suggestion is in it */
	size_t point_count;
};

struct report {
	const struct replay *replay;
	const char *source;                         /* a trace's path, or a pattern's name */
	uint64_t malformed;                         /* lines */
	bool as_rules;                              /* one scenario of rules, not limits side by side */
	const struct report_suggestion *suggestion; /* NULL if none was asked for */
};

#define REPORT_TOP 10 /* keys listed of those that are denied most */

/** One JSON object. */
void report_json(const struct report *report, struct buffer *out);

/** A table with small charts. `plain`: no colours, no characters but ASCII. */
void report_text(const struct report *report, bool plain, struct buffer *out);

/** At most so many intervals should each timeline have for a page of bounded size. */
size_t report_html_intervals(const struct replay *replay);

/** A page that needs nothing else. */
void report_html(const struct report *report, struct buffer *out);

#endif
