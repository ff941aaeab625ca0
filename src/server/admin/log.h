/*
 * log.h: what an operator reads on stderr: a line per event, as text or JSON.
 *
 *     2026-05-01T12:00:00.123Z info reloaded file=weir.yaml limits=4 rules=4
 *     {"time":"2026-05-01T12:00:00.123Z","level":"info","event":"reloaded","file":"weir.yaml",…}
 *
 * Each event has a token bucket of its own, so that a flood of one hides no
 * other. What it denies is counted, and told by the next line as "dropped".
 *
 * A thread writes the lines, so that nobody else waits for stderr: a pipe that is not
 * read, a terminal that was stopped, a full disk. LOG_QUEUE_MAX bytes wait for it, and
 * further lines are dropped like the others. Writing without waiting would need
 * O_NONBLOCK, which belongs to the open file and thus to all who share it, such as a
 * shell; and between poll() and write() another process may fill the pipe.
 */
#ifndef SERVER_LOG_H
#define SERVER_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <weir/rules.h>

#include "base/buffer.h"

#define LOG_RATE  10 /* lines of an event per second */
#define LOG_BURST 100

#define LOG_QUEUE_MAX ((size_t)64 << 10)

enum log_format { LOG_TEXT, LOG_JSON };
enum log_level { LOG_INFO, LOG_WARNING, LOG_ERROR };

/* "message" stands bare in text, and so at the end. */
struct log_field {
	const char *name;
	const char *text; /* NULL: the number */
	uint64_t number;
};

struct log;

struct log *log_open(enum log_format format, int fd); /* NULL: out of memory */
/** Waits a second at most for what is not written yet. */
void log_close(struct log *log);

/** Tells of each event that is logged, as one JSON object, on the thread that logs it. */
typedef void log_listener(void *context, const char *event, struct slice json);
/** Before any other thread logs. */
void log_listen(struct log *log, log_listener *listener, void *context);

/** One line, one write, soon. Any thread. */
void log_write(struct log *log, enum log_level level, const char *event,
               const struct log_field *fields, size_t n);

/** log_event(log, LOG_INFO, "reloaded", {"file", path}, {"limits", .number = 4}) */
#define log_event(log, level, event, ...)                                                          \
	log_write(log, level, event, (const struct log_field[]){__VA_ARGS__},                          \
	          sizeof((const struct log_field[]){__VA_ARGS__}) / sizeof(struct log_field))

/** `line` as it is, with its newline. */
void log_plain(struct log *log, const char *line);

/** An error, with its place in the file `path` when it has one. */
void log_error(struct log *log, const char *event, const char *path,
               const struct weir_error *error);

/** Logs a remark about a file: an error as log_error, a warning with its place in fields. */
void log_remark(struct log *log, const char *event, const struct weir_config_remark *remark);

/** Waits until all lines are written, `timeout_ms` at most. False: some are not. */
bool log_flush(struct log *log, uint64_t timeout_ms);

/** Lines dropped so far. */
uint64_t log_dropped(const struct log *log);

/** Appends "FILE:LINE:COL: error: …", or "FILE: error: …" where no place is known. */
void log_add_error(struct buffer *out, const char *path, const struct weir_error *error);
/** The same of a remark, which may be a warning. */
void log_add_remark(struct buffer *out, const struct weir_config_remark *remark);

#endif
