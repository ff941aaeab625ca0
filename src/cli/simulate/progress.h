/* progress.h: shows on a terminal how far a replay has come. */
#ifndef SIMULATE_PROGRESS_H
#define SIMULATE_PROGRESS_H

#include "simulate/input/trace.h"

struct progress {
	bool is_shown;             /* stderr is a terminal */
	const struct trace *trace; /* the log that is read; NULL for made-up traffic */
	unsigned search_pass; /* of a search by --suggest, which reads the log again and again; or 0 */
	uint64_t next_ns;     /* when to draw again, by the monotonic clock */
};

void progress_open(struct progress *progress);

/** The `progress` function of a replay: draws at most four times a second. */
void progress_show(void *context, uint64_t requests);

/** Clears the line. */
void progress_clear(const struct progress *progress);

#endif
