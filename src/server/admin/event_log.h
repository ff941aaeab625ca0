/*
 * event_log.h: writes the server's log to stderr: one line for each event, as text or JSON.
 *
 *     2026-05-01T12:00:00.123Z info reloaded file=weir.yaml limits=4 rules=4
 *     {"time":"2026-05-01T12:00:00.123Z","level":"info","event":"reloaded",…}
 *
 * Each kind of event has a token bucket of its own, so that a flood of one hides no other. Lines
 * beyond it are dropped; the next line shows their number as "dropped".
 *
 * A thread writes the lines, so that no other thread waits for stderr: a pipe that nobody reads, a
 * stopped terminal, a full disk. LOG_QUEUE_MAX bytes may wait; further lines are dropped, too. The
 * alternative, O_NONBLOCK, belongs to the open file and thus to all processes that share it, such
 * as a shell; and another process may fill the pipe between poll() and write().
 */
#ifndef SERVER_EVENT_LOG_H
#define SERVER_EVENT_LOG_H

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

/* A field whose name is "message" is written without quotes in text, so it must be the last one. */
struct log_field {
	const char *name;
	const char *text; /* NULL if `number` is the value */
	uint64_t number;
};

struct log;

struct log *log_open(enum log_format format, int fd); /* NULL if memory is short */
/** Waits up to a second for lines that are not written yet. */
void log_close(struct log *log);

/** Receives each event as one JSON object, on the thread that logs it. */
typedef void log_listener(void *context, const char *event, struct slice json);
/** Sets the listener, before any other thread logs. */
void log_listen(struct log *log, log_listener *listener, void *context);

/** Queues one line, which is written at once by the log's thread. Any thread may call it. */
void log_write(struct log *log, enum log_level level, const char *event,
               const struct log_field *fields, size_t n);

#define log_event(log, level, event, ...)                                                          \
	log_write(log, level, event, (const struct log_field[]){__VA_ARGS__},                          \
	          sizeof((const struct log_field[]){__VA_ARGS__}) / sizeof(struct log_field))

/** Queues `line` unchanged; it ends with a newline. */
void log_plain(struct log *log, const char *line);

/** Logs an error, with its place in the file `path` if it has one. */
void log_error(struct log *log, const char *event, const char *path,
               const struct weir_error *error);

/** Logs a remark about a file: an error like log_error, a warning with its place in fields. */
void log_remark(struct log *log, const char *event, const struct weir_config_remark *remark);

/** Waits up to `timeout_ms` until all lines are written. Returns whether they are. */
bool log_flush(struct log *log, uint64_t timeout_ms);

/** The number of lines dropped so far. */
uint64_t log_dropped(const struct log *log);

/** Appends "FILE:LINE:COL: error: …", or "FILE: error: …" without a place. */
void log_add_error(struct buffer *out, const char *path, const struct weir_error *error);
/** The same for a remark, which may be a warning. */
void log_add_remark(struct buffer *out, const struct weir_config_remark *remark);

#endif
