/*
 * trace.h: reads a log as a sequence of requests.
 *
 * Lines that are not requests are skipped and counted, and the first few are reported. The same
 * holds for requests further than ALGO_HORIZON_NS from the first one, since a table can't
 * distinguish times so far apart.
 */
#ifndef SIMULATE_TRACE_H
#define SIMULATE_TRACE_H

#include <stdio.h>

#include "simulate/input/format.h"
#include "simulate/input/lines.h"

#define TRACE_REPORTS_MAX 5

struct trace {
	struct lines lines;
	const char *path;
	const struct format *format;
	struct columns columns;
	FILE *reports;
	const char *before_report; /* text that clears a progress line; may be NULL */
	bool begun;                /* the first line was read */
	uint64_t size;             /* of the file; 0 if not known */
	uint64_t malformed;        /* number of lines that are not requests */
	uint64_t first_ns;         /* time of the first request; 0 if there was none */
};

/**
 * Opens `path`; "-" is stdin. If `format` is NULL, it is guessed from the first line. `fields` and
 * `path` must outlive the trace; fields may be added until trace_next. Errors: EIO, ENOMEM.
 */
int trace_open(struct trace *trace, const char *path, const struct format *format,
               const struct fields *fields, FILE *reports, struct weir_error *error);
/** The same for an open `fd`, which it takes over, also on error. The caller sets trace->path. */
int trace_open_descriptor(struct trace *trace, int fd, const struct format *format,
                          const struct fields *fields, FILE *reports, struct weir_error *error);
void trace_close(struct trace *trace);

/** Whether one of the first requests has a latency. Call it before the first trace_next. */
bool trace_has_latency(struct trace *trace);

/**
 * The `next` function of a struct source. Errors: EIO; ESYNTAX if the first line of a CSV does not
 * name its columns.
 */
int trace_next(void *trace, struct record *record, struct weir_error *error);

#endif
