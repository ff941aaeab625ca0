/*
 * trace.h: a log as a sequence of requests.
 *
 * Lines that are no request are counted, the first few of them reported; the
 * trace goes on behind them. So are requests further than ALGO_HORIZON_NS from
 * the first one: times that far apart can't be told apart in a table.
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
	const char *before_report; /* what clears the line that it goes to; may be NULL */
	bool begun;                /* the first line was seen */
	uint64_t size;             /* of the file; 0 if not known */
	uint64_t malformed;        /* lines so far */
	uint64_t first_ns;         /* time of the first request; 0 if there was none */
};

/**
 * Opens `path`, "-" being stdin. `format` NULL: guessed from the first line.
 * `fields` and `path` must outlive the trace; what is asked for may change until trace_next.
 * Errors: EIO, ENOMEM.
 */
int trace_open(struct trace *trace, const char *path, const struct format *format,
               const struct fields *fields, FILE *reports, struct weir_error *error);
/**
 * The same, of what is open: takes over `fd`, also where it fails. The caller has set trace->path.
 */
int trace_open_descriptor(struct trace *trace, int fd, const struct format *format,
                          const struct fields *fields, FILE *reports, struct weir_error *error);
void trace_close(struct trace *trace);

/** Whether one of its first requests says how long it took. Before the first trace_next. */
bool trace_has_latency(struct trace *trace);

/**
 * A struct source's `next`. 1: *record is the next request, its values good until the next call; 0:
 * there is none. Errors: EIO; ESYNTAX where the first line does not name the columns.
 */
int trace_next(void *trace, struct record *record, struct weir_error *error);

#endif
