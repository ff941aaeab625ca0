/*
 * event_log.c: writes the log of the server to stderr, one line for each event, by a thread of its
 * own, so that no other thread waits for stderr. Drops lines of an event that comes too often, and
 * lines that find the queue full.
 */
#include "server/admin/event_log.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "base/list.h"
#include "base/number.h"
#include "base/os/deadline.h"
#include "base/os/os.h"
#include "base/os/thread.h"

#define EVENT_KINDS_MAX 64 /* kinds of events; more kinds would share buckets */

#define CLOSE_TIMEOUT_MS 1000

/* A line that waits to be written. */
struct queued_line {
	struct list_node node;
	uint64_t drops_to_show; /* that the line shows as "dropped" */
	size_t len;
	char text[];
};

struct log {
	enum log_format format;
	int fd;
	weir_limit *event_rate;
	weir_table *buckets;            /* of tokens, one for each event */
	log_listener *listener;         /* NULL without a listener */
	void *context;                  /* the first argument of `listener` */
	_Atomic uint64_t dropped;       /* lines in all */
	_Atomic uint64_t drops_to_show; /* since the last line that shows them */
	pthread_mutex_t mutex;          /* of the fields below */
	pthread_cond_t changed;
	struct list lines;
	size_t queued_bytes; /* with the line that is being written */
	bool is_closing, has_writer;
	pthread_t writer;
};

static const char *const level_names[] = {
    [LOG_INFO] = "info", [LOG_WARNING] = "warning", [LOG_ERROR] = "error"};

/* Counts a dropped line, and again the `drops_to_show` that it would have shown. */
static void count_dropped_line(struct log *log, uint64_t drops_to_show)
{
	atomic_fetch_add_explicit(&log->dropped, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&log->drops_to_show, 1 + drops_to_show, memory_order_relaxed);
}

/* Returns false if writing failed. */
static bool write_all(const struct log *log, const struct queued_line *line)
{
	size_t written = 0;

	while (written < line->len) {
		ssize_t n = write(log->fd, line->text + written, line->len - written);

		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return false;
		written += (size_t)n;
	}
	return true;
}

/* The writer's thread. Returns when the log is closed and all lines are written. */
static void *run_writer(void *argument)
{
	struct log *log = argument;

	pthread_mutex_lock(&log->mutex);
	for (;;) {
		struct queued_line *line = list_of(list_pop(&log->lines), struct queued_line, node);

		if (line) {
			pthread_mutex_unlock(&log->mutex);
			if (!write_all(log, line))
				count_dropped_line(log, line->drops_to_show);
			pthread_mutex_lock(&log->mutex);
			log->queued_bytes -= line->len;
			pthread_cond_broadcast(&log->changed);
			free(line);
		} else if (log->is_closing) {
			break;
		} else {
			pthread_cond_wait(&log->changed, &log->mutex);
		}
	}
	pthread_mutex_unlock(&log->mutex);
	return NULL;
}

static bool start_writer(struct log *log)
{
	log->has_writer = thread_start(&log->writer, run_writer, log) == 0;
	return log->has_writer;
}

struct log *log_open(enum log_format format, int fd)
{
	struct log *log = calloc(1, sizeof *log);

	if (!log)
		return NULL;
	log->format = format;
	log->fd = fd;
	pthread_mutex_init(&log->mutex, NULL);
	condition_init(&log->changed);
	if (weir_limit_open(&(struct weir_limit_options){.rate = {LOG_RATE}, .burst = LOG_BURST},
	                    &log->event_rate, NULL) == WEIR_OK &&
	    weir_table_open(&(struct weir_table_options){.capacity = EVENT_KINDS_MAX}, &log->buckets,
	                    NULL) == WEIR_OK &&
	    start_writer(log))
		return log;
	log_close(log);
	return NULL;
}

/* Waits until all lines are written. Returns false if the time ended before. */
bool log_flush(struct log *log, uint64_t timeout_ms)
{
	uint64_t end_ns = os_monotonic_ns() + timeout_ms * NS_PER_MS;
	bool written;

	pthread_mutex_lock(&log->mutex);
	while (log->queued_bytes > 0 &&
	       condition_wait_until(&log->changed, &log->mutex, end_ns) != ETIMEDOUT)
		;
	written = log->queued_bytes == 0;
	pthread_mutex_unlock(&log->mutex);
	return written;
}

void log_close(struct log *log)
{
	if (!log)
		return;
	if (log->has_writer && !log_flush(log, CLOSE_TIMEOUT_MS)) {
		/* The writer may block for ever. It ends with the process, so its memory must stay. */
		pthread_detach(log->writer);
		return;
	}
	if (log->has_writer) {
		pthread_mutex_lock(&log->mutex);
		log->is_closing = true;
		pthread_cond_broadcast(&log->changed);
		pthread_mutex_unlock(&log->mutex);
		pthread_join(log->writer, NULL);
	}
	weir_table_close(log->buckets);
	weir_limit_close(log->event_rate);
	pthread_cond_destroy(&log->changed);
	pthread_mutex_destroy(&log->mutex);
	free(log);
}

/* Gives the line to the writer, or drops it if the queue is full. */
static void enqueue_line(struct log *log, const char *text, size_t len, uint64_t drops_to_show)
{
	struct queued_line *line = malloc(sizeof *line + len);
	bool fits = false;

	if (line) {
		*line = (struct queued_line){.drops_to_show = drops_to_show, .len = len};
		memcpy(line->text, text, len);
		pthread_mutex_lock(&log->mutex);
		fits = log->queued_bytes + len <= LOG_QUEUE_MAX;
		if (fits) {
			list_append(&log->lines, &line->node);
			log->queued_bytes += len;
			pthread_cond_broadcast(&log->changed);
		}
		pthread_mutex_unlock(&log->mutex);
	}
	if (!fits) {
		free(line);
		count_dropped_line(log, drops_to_show);
	}
}

void log_plain(struct log *log, const char *line)
{
	enqueue_line(log, line, strlen(line), 0);
}

static void add_time(struct buffer *out, uint64_t at_ns)
{
	time_t seconds = (time_t)(at_ns / NS_PER_S);
	char text[sizeof "2026-05-01T12:00:00"];
	struct tm utc;

	strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%S", gmtime_r(&seconds, &utc));
	buffer_printf(out, "%s.%03uZ", text, (unsigned)(at_ns % NS_PER_S / NS_PER_MS));
}

static void add_json_field(struct buffer *out, const struct log_field *field)
{
	buffer_printf(out, ",\"%s\":", field->name);
	if (field->text)
		buffer_add_json_string(out, slice_of(field->text));
	else
		buffer_add_u64(out, field->number);
}

static bool needs_no_quotes(const char *text)
{
	const unsigned char *p = (const unsigned char *)text;

	while (*p > ' ' && *p != '"' && *p != '=' && *p != '\\' && *p != 0x7f)
		p++;
	return *text && *p == '\0';
}

/* JSON does not escape all characters that control a terminal, so this makes them visible. */
static void add_quoted_printable(struct buffer *out, const char *text)
{
	struct buffer quoted = {0};

	buffer_add_json_string(&quoted, slice_of(text));
	out->failed |= quoted.failed;
	buffer_add_printable(out, (struct slice){quoted.data, quoted.len});
	buffer_free(&quoted);
}

/* Adds " name=value"; of a message the value alone, without quotes. */
static void add_text_field(struct buffer *out, const struct log_field *field)
{
	if (strcmp(field->name, "message") == 0) {
		buffer_add(out, " ", 1);
		buffer_add_printable(out, slice_of(field->text));
		return;
	}
	buffer_printf(out, " %s=", field->name);
	if (!field->text)
		buffer_add_u64(out, field->number);
	else if (needs_no_quotes(field->text))
		buffer_add_printable(out, slice_of(field->text));
	else
		add_quoted_printable(out, field->text);
}

void log_listen(struct log *log, log_listener *listener, void *context)
{
	log->listener = listener;
	log->context = context;
}

/* The parts of a line before it becomes text or JSON. */
struct event_line {
	uint64_t at_ns;
	enum log_level level;
	const char *event;
	struct log_field dropped; /* shown unless its number is 0 */
	const struct log_field *fields;
	size_t count;
};

static void render_line(struct buffer *out, enum log_format format, const struct event_line *line)
{
	bool is_json = format == LOG_JSON;
	void (*add_field)(struct buffer * out, const struct log_field *field) =
	    is_json ? add_json_field : add_text_field;

	buffer_add_text(out, is_json ? "{\"time\":\"" : "");
	add_time(out, line->at_ns);
	buffer_printf(out, is_json ? "\",\"level\":\"%s\",\"event\":\"%s\"" : " %s %s",
	              level_names[line->level], line->event);
	if (line->dropped.number > 0)
		add_field(out, &line->dropped);
	for (size_t i = 0; i < line->count; i++)
		add_field(out, &line->fields[i]);
	if (is_json)
		buffer_add(out, "}", 1);
}

/* Passes the event as JSON to the listener, whatever the format of the log is. */
static void notify_listener(const struct log *log, const struct event_line *line)
{
	struct buffer json = {0};

	render_line(&json, LOG_JSON, line);
	if (!json.failed)
		log->listener(log->context, line->event, (struct slice){json.data, json.len});
	buffer_free(&json);
}

/* Drops the line if its event comes too often, or renders it and queues it for the writer. */
void log_write(struct log *log, enum log_level level, const char *event,
               const struct log_field *fields, size_t n)
{
	struct event_line line = {os_wall_ns(), level, event, {"dropped"}, fields, n};
	struct weir_decision decision;
	struct buffer text = {0};
	int status = weir_acquire(log->buckets, log->event_rate,
	                          (struct weir_key){event, strlen(event)}, 1, WEIR_NOW, &decision);

	if (status == WEIR_OK && !decision.allowed) {
		count_dropped_line(log, 0);
		return;
	}
	line.dropped.number = atomic_exchange_explicit(&log->drops_to_show, 0, memory_order_relaxed);
	render_line(&text, log->format, &line);
	buffer_add(&text, "\n", 1);
	if (text.failed)
		count_dropped_line(log, line.dropped.number);
	else
		enqueue_line(log, text.data, text.len, line.dropped.number);
	buffer_free(&text);
	if (log->listener)
		notify_listener(log, &line);
}

void log_add_error(struct buffer *out, const char *path, const struct weir_error *error)
{
	if (error->line > 0)
		buffer_printf(out, "%s:%u:%u: error: %s", path, error->line, error->column, error->message);
	else
		buffer_printf(out, "%s: error: %s", path, error->message);
}

void log_add_remark(struct buffer *out, const struct weir_config_remark *remark)
{
	const char *kind = remark->is_error ? "error" : "warning";

	if (remark->line > 0)
		buffer_printf(out, "%s:%u:%u: ", remark->path, remark->line, remark->column);
	else if (remark->path)
		buffer_printf(out, "%s: ", remark->path);
	buffer_printf(out, "%s: %s", kind, remark->text);
}

/*
 * The position in the file is three fields in JSON, and the beginning of the message in text. An
 * error without a line has neither, not even `path`.
 */
void log_error(struct log *log, const char *event, const char *path, const struct weir_error *error)
{
	struct buffer with_position = {0};

	if (!path || error->line == 0) {
		log_event(log, LOG_ERROR, event, {"message", error->message});
	} else if (log->format == LOG_JSON) {
		log_event(log, LOG_ERROR, event, {"file", path}, {"line", .number = error->line},
		          {"column", .number = error->column}, {"message", error->message});
	} else {
		log_add_error(&with_position, path, error);
		buffer_add(&with_position, "", 1); /* a NUL */
		log_event(log, LOG_ERROR, event,
		          {"message", with_position.failed ? error->message : with_position.data});
		buffer_free(&with_position);
	}
}

/* Logs an error or a warning about a file, with as much of its position as it has. */
void log_remark(struct log *log, const char *event, const struct weir_config_remark *remark)
{
	bool has_line = remark->line > 0, names_file = !has_line && remark->path;
	struct weir_error error;

	if (remark->is_error) {
		error_set_at(&error, WEIR_EINVAL, remark->line, remark->column, "%s%s%s",
		             names_file ? remark->path : "", names_file ? ": " : "", remark->text);
		log_error(log, event, remark->path, &error);
	} else if (has_line) {
		log_event(log, LOG_WARNING, event, {"file", remark->path}, {"line", .number = remark->line},
		          {"column", .number = remark->column}, {"message", remark->text});
	} else if (remark->path) {
		log_event(log, LOG_WARNING, event, {"file", remark->path}, {"message", remark->text});
	} else {
		log_event(log, LOG_WARNING, event, {"message", remark->text});
	}
}

uint64_t log_dropped(const struct log *log)
{
	return atomic_load_explicit(&log->dropped, memory_order_relaxed);
}
