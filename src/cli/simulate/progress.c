/*
 * progress.c: draws a progress bar on a terminal: the share of a file's bytes that has
 * been read, and the number of requests. A pipe and made-up traffic have no size, so only requests
 * are shown.
 */
#include "cli/simulate/progress.h"

#include <stdio.h>
#include <sys/ioctl.h>
#include <time.h>
#include <unistd.h>

#include "base/number.h"
#include "base/time/timestamp.h"

#define BAR_WIDTH   30
#define INTERVAL_NS (NS_PER_S / 4)
#define CLEAR_LINE  "\r\033[K"

void progress_open(struct progress *progress)
{
	*progress = (struct progress){.is_shown = isatty(STDERR_FILENO)};
}

static uint64_t monotonic_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * NS_PER_S + (uint64_t)now.tv_nsec;
}

static void draw(const struct progress *progress, uint64_t requests)
{
	const struct trace *trace = progress->trace;
	uint64_t size = trace ? trace->size : 0;
	uint64_t percent = size ? unpack_consumed(trace->lines.unpack) * 100 / size : 0;
	int bars = (int)(u64_min(percent, 100) * BAR_WIDTH / 100);
	struct winsize window = {0};

	fputs(CLEAR_LINE, stderr);
	if (progress->search_pass > 0)
		fprintf(stderr, "search, pass %u: ", progress->search_pass);
	/* Draw no bar where the line would wrap, since it could not be overwritten. */
	ioctl(STDERR_FILENO, TIOCGWINSZ, &window);
	if (size && (window.ws_col == 0 || window.ws_col >= 3 * BAR_WIDTH))
		fprintf(stderr, "[%.*s%*s]", bars, "##############################", BAR_WIDTH - bars, "");
	if (size)
		fprintf(stderr, " %3llu%%", (unsigned long long)u64_min(percent, 100));
	fprintf(stderr, " %llu requests ", (unsigned long long)requests);
}

void progress_show(void *context, uint64_t requests)
{
	struct progress *progress = context;
	uint64_t now_ns = monotonic_ns();

	if (!progress->is_shown || now_ns < progress->next_ns)
		return;
	progress->next_ns = now_ns + INTERVAL_NS;
	draw(progress, requests);
}

void progress_clear(const struct progress *progress)
{
	if (progress->is_shown)
		fputs(CLEAR_LINE, stderr);
}
