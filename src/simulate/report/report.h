/* report.h: writes the result of a replay as text, JSON or an HTML page. */
#ifndef SIMULATE_REPORT_H
#define SIMULATE_REPORT_H

#include <stdio.h>

#include "simulate/replay.h"
#include "simulate/report/report_clients.h"

/* The denials of a limit of `count` per period. */
struct report_point {
	uint64_t count;
	uint64_t requests, denied;
	uint64_t keys, hit; /* keys, and keys with a denied request */
};

/* The smallest limit that denies at most a share, and the denials of other counts. */
struct report_suggestion {
	const char *limit;                 /* in the form of a rule file: "NAME: {...}" */
	uint64_t count;                    /* of its rate */
	bool unsure;                       /* a much smaller limit may suffice: not all were tried */
	bool by_requests;                  /* the share is of requests, not of keys */
	double share;                      /* 0.001 is 0.1% */
	const struct report_point *points; /* ascending by count, including the suggestion */
	size_t point_count;
};

/** Whether a share larger than 0 of so many keys or requests is less than one of them. */
static inline bool report_share_is_none(double share, uint64_t whole)
{
	return share > 0 && share * (double)whole < 1 - 1e-9;
}

struct report {
	const struct replay *replay;
	const char *source; /* a trace's path, or a pattern's name */
	uint64_t malformed; /* lines */
	/* One scenario decided by all rules; otherwise each limit decided all requests in its own. */
	bool decided_by_rules;
	const struct report_suggestion *suggestion; /* NULL without --suggest */
	const struct report_clients *clients;       /* NULL without --clients */
};

#define REPORT_TOP 10 /* how many of the most denied keys are listed */

/** Appends one JSON object. */
void report_json(const struct report *report, struct buffer *out);

/** Appends a table with small charts. `plain`: only ASCII, without colours. */
void report_text(const struct report *report, bool plain, struct buffer *out);

/** How many intervals each timeline may have so that the size of the page is bounded. */
size_t report_html_intervals(const struct replay *replay);

/** Appends an HTML page that needs no other files. */
void report_html(const struct report *report, struct buffer *out);

#endif
