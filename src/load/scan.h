/*
 * scan.h: finds the replies in a stream of bytes, which may be split anywhere, and the outcome of
 * each reply. It stores no bytes except the beginning of one line. In HTTP it reads bodies with a
 * Content-Length, not chunked ones.
 */
#ifndef LOAD_SCAN_H
#define LOAD_SCAN_H

#include <stdbool.h>
#include <stdint.h>

#include "base/slice.h"

#define SCAN_LINE_MAX 160 /* a refused login of Weir is longer than 80 */

enum scan_outcome { SCAN_ANSWER, SCAN_ALLOWED, SCAN_DENIED, SCAN_ERROR, SCAN_OUTCOMES };
enum scan_result { SCAN_MORE, SCAN_REPLY, SCAN_BROKEN };

struct scan;

/* How replies are read. */
struct scan_rules {
	/* Reads one line of a reply; returns false if it can't be understood. */
	bool (*read_line)(const struct scan_rules *rules, struct scan *scan, struct slice line);
	int64_t allowing_integer; /* for RESP: it means allowed; negative if replies decide nothing */
};

/* Zeroed is the beginning of a stream. */
struct scan {
	uint64_t skip_bytes;     /* of a body, which have not arrived */
	uint64_t missing_values; /* for RESP: of the reply; for HTTP: 1 until the headers end */
	uint64_t content_length; /* for HTTP */
	bool in_reply;           /* a reply has begun */
	bool has_known_length;   /* for HTTP: of the body */
	enum scan_outcome outcome;
	size_t line_len;
	char line[SCAN_LINE_MAX]; /* the beginning of a line that has not ended */
	char text[SCAN_LINE_MAX]; /* an error, or a line that can not be parsed; NUL-terminated */
};

/** Rules for the replies to a RESP command, by its first word, and to HTTP requests. */
struct scan_rules scan_resp(struct slice command);
struct scan_rules scan_http(void);

/**
 * Removes bytes from `bytes` until a reply is complete: then returns SCAN_REPLY and sets
 * scan->outcome. After SCAN_BROKEN the rest of the stream can not be parsed.
 */
enum scan_result scan_next(const struct scan_rules *rules, struct scan *scan, struct slice *bytes);

#endif
