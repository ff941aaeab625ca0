#include "server/log.h"

#include <stdarg.h>
#include <stdio.h>

#include "base/number.h"

#define LINE_MAX_LEN 512

/* One write per line, so that lines of several threads don't mix. */
static void log_va(const char *format, va_list args, uint64_t dropped)
{
	char line[LINE_MAX_LEN];

	vsnprintf(line, sizeof line, format, args);
	if (dropped > 0)
		fprintf(stderr, "weir: %s (and %llu more)\n", line, (unsigned long long)dropped);
	else
		fprintf(stderr, "weir: %s\n", line);
}

void log_line(const char *format, ...)
{
	va_list args;

	va_start(args, format);
	log_va(format, args, 0);
	va_end(args);
}

void log_file_error(const char *path, const struct weir_error *error)
{
	if (error->line > 0)
		fprintf(stderr, "%s:%u:%u: error: %s\n", path, error->line, error->column, error->message);
	else
		fprintf(stderr, "%s: error: %s\n", path, error->message);
}

void log_limited(struct log_gate *gate, uint64_t now_ns, const char *format, ...)
{
	va_list args;

	if (now_ns < gate->next_ns) {
		gate->dropped++;
		return;
	}
	va_start(args, format);
	log_va(format, args, gate->dropped);
	va_end(args);
	gate->next_ns = now_ns + NS_PER_S;
	gate->dropped = 0;
}
