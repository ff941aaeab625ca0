/*
 * scan.h: counts replies in a stream that may be cut anywhere, and tells the outcome of each. It
 * keeps no bytes beyond the beginning of one line. Of HTTP it takes bodies with a Content-
 * Length, not chunked ones.
 */
#ifndef LOAD_SCAN_H
#define LOAD_SCAN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/slice.h"

#define SCAN_LINE_MAX 80

enum scan_outcome { SCAN_ANSWER, SCAN_ALLOWED, SCAN_DENIED, SCAN_ERROR, SCAN_OUTCOMES };
enum scan_result { SCAN_MORE, SCAN_REPLY, SCAN_BROKEN };

struct scan;

/* How replies are read. */
struct scan_rules {
	bool (*read_line)(const struct scan_rules *rules, struct scan *scan, struct slice line);
	int64_t allowed; /* RESP: the first integer of a reply that allows; negative: none decides */
};

/* Zeroed is the beginning of a stream. */
struct scan {
	uint64_t skip;    /* bytes of a body to come */
	uint64_t pending; /* RESP: values to come; HTTP: 1 until the headers end */
	uint64_t body;    /* HTTP: Content-Length */
	bool begun;       /* a reply has begun */
	bool sized;       /* HTTP: the length of its body is known */
	enum scan_outcome outcome;
	size_t line_len;
	char line[SCAN_LINE_MAX]; /* the beginning of a line that was cut */
	char text[SCAN_LINE_MAX]; /* an error, or a line that was not understood; NUL-terminated */
};

/** Rules for a RESP command by its first word, and for HTTP. */
struct scan_rules scan_resp(struct slice command);
struct scan_rules scan_http(void);

/**
 * Takes bytes off `bytes` until a reply is whole: then SCAN_REPLY, and
 * scan->outcome. After SCAN_BROKEN the stream has lost its frame.
 */
enum scan_result scan_next(const struct scan_rules *rules, struct scan *scan, struct slice *bytes);

#endif
