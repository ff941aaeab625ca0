/*
 * trace.c: reads a log, here called a trace, as a sequence of requests. Skips lines that are not
 * requests, counts them and reports the first few.
 */
#include "simulate/input/trace.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "algo/algo.h"
#include "base/error.h"
#include "simulate/input/ending.h"

/*
 * Opens a trace of `fd`, which is closed by trace_close, or here on failure. It may be -1 with
 * errno of a failed open. The caller has set trace->path, and no other member.
 */
int trace_open_descriptor(struct trace *trace, int fd, const struct format *format,
                          const struct fields *fields, FILE *reports, struct weir_error *error)
{
	const char *path = trace->path;
	struct stat file;
	int status;

	*trace = (struct trace){.path = path, .format = format, .reports = reports};
	trace->columns.fields = fields;
	if (fd < 0 || fstat(fd, &file) != 0) {
		status = error_set(error, WEIR_EIO, "%s: expected a readable file, found: %m", path);
	} else {
		if (S_ISREG(file.st_mode))
			trace->size = (uint64_t)file.st_size;
		posix_fadvise(fd, 0, 0, POSIX_FADV_SEQUENTIAL);
		if (lines_open(&trace->lines, fd) == WEIR_OK)
			return WEIR_OK;
		status = error_set(error, WEIR_ENOMEM, "out of memory");
	}
	if (fd >= 0)
		close(fd);
	return status;
}

int trace_open(struct trace *trace, const char *path, const struct format *format,
               const struct fields *fields, FILE *reports, struct weir_error *error)
{
	int fd = strcmp(path, "-") == 0 ? dup(STDIN_FILENO) : open(path, O_RDONLY | O_CLOEXEC);

	trace->path = path;
	return trace_open_descriptor(trace, fd, format, fields, reports, error);
}

void trace_close(struct trace *trace)
{
	lines_close(&trace->lines);
}

/* Refuses a time too far from the first one, most likely that of a clock that was not set. */
static int check_time(struct trace *trace, const struct record *record, struct weir_error *error)
{
	uint64_t first_ns = trace->first_ns, time_ns = record->time_ns;
	uint64_t apart_ns = time_ns > first_ns ? time_ns - first_ns : first_ns - time_ns;

	if (first_ns == 0)
		trace->first_ns = time_ns;
	else if (apart_ns > ALGO_HORIZON_NS)
		return error_set(error, WEIR_ERANGE,
		                 "expected a time within 16 years of the first one, found %llu years",
		                 (unsigned long long)(apart_ns / (365 * NS_PER_DAY)));
	return WEIR_OK;
}

static void report(struct trace *trace, const struct weir_error *error)
{
	if (++trace->malformed > TRACE_REPORTS_MAX || !trace->reports)
		return;
	fprintf(trace->reports, "%s%s:%llu:%u: error: %s\n",
	        trace->before_report ? trace->before_report : "", trace->path,
	        (unsigned long long)trace->lines.number, error->column ? error->column : 1,
	        error->message);
	if (trace->malformed == TRACE_REPORTS_MAX)
		fputs("more lines like these are only counted\n", trace->reports);
}

/*
 * Chooses the format and columns by the first line. Sets *is_header if that names the columns, as
 * only CSV does, and is not a request.
 */
static int read_first_line(struct trace *trace, struct slice line, bool *is_header,
                           struct weir_error *error)
{
	const struct fields *fields = trace->columns.fields;
	bool guessed = !trace->format;
	int status;

	if (guessed)
		trace->format = format_guess(line);
	format_columns(trace->format, fields, &trace->columns);
	*is_header = trace->format->header != NULL;
	if (!*is_header)
		return WEIR_OK;
	status = trace->format->header(&trace->columns, line, error);
	if (status != WEIR_OK) {
		struct weir_error inner = *error;

		error_set(error, status, "%s:%llu:%u: error: %s%s", trace->path,
		          (unsigned long long)trace->lines.number, inner.column ? inner.column : 1,
		          inner.message, guessed ? " (read as CSV: --format if it is none)" : "");
	}
	return status;
}

/*
 * Whether a request in the beginning of the log has a latency. Parses a copy of it, because parsers
 * change their lines.
 */
bool trace_has_latency(struct trace *trace)
{
	struct slice text = lines_peek(&trace->lines);
	struct fields fields = {0};
	struct endings endings = {0};
	struct trace peek = {.path = trace->path, .format = trace->format, .columns.fields = &fields};
	struct record *record = calloc(1, sizeof *record);
	struct weir_error ignored;
	bool found = false;

	endings_add_fields(&endings, &fields);
	if (record && lines_copy(&peek.lines, text) == WEIR_OK)
		while (!found && trace_next(&peek, record, &ignored) == 1)
			found = endings_has_latency(&endings, record);
	trace_close(&peek);
	free(record);
	return found;
}

/* Returns 1 and the next request, 0 at the end, or the negative status of an error. */
int trace_next(void *source, struct record *record, struct weir_error *error)
{
	struct trace *trace = source;
	struct line line;
	int status;

	while ((status = lines_next(&trace->lines, &line)) == 1) {
		struct slice text = {line.data, line.len};
		struct weir_error wrong; /* not cleared, which would cost time: a call that fails sets it */
		bool is_header = false;

		if (line.len == 0)
			continue;
		if (!trace->begun) {
			trace->begun = true;
			/* Some programs begin their files with a byte order mark. */
			slice_skip(&text, SLICE("\xef\xbb\xbf"));
			status = read_first_line(trace, text, &is_header, error);
			if (status != WEIR_OK)
				return status;
			if (is_header)
				continue;
		}
		if (line.too_long)
			error_set(&wrong, WEIR_ELONG, "expected a line of at most %zu bytes, found more",
			          LINES_LENGTH_MAX);
		else if (trace->format->parse(&trace->columns, text, record, &wrong) == WEIR_OK &&
		         check_time(trace, record, &wrong) == WEIR_OK)
			return 1;
		report(trace, &wrong);
	}
	if (status < 0 && errno == EBADMSG && unpack_damage(trace->lines.unpack))
		error_set(error, WEIR_EIO, "%s: after line %llu: %s", trace->path,
		          (unsigned long long)trace->lines.number, unpack_damage(trace->lines.unpack));
	else if (status < 0)
		error_set(error, WEIR_EIO, "%s: expected a readable file, found: %s", trace->path,
		          strerror(errno));
	return status;
}
