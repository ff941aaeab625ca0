#include "server/admin/event_log.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/error.h"
#include "base/list.h"
#include "base/number.h"
#include "base/os/os.h"

#define EVENTS_MAX 64 /* kinds of events; more kinds would share buckets */

#define CLOSE_TIMEOUT_MS 1000

/* A line that waits to be written. */
struct line {
	struct list_node node;
	uint64_t newly_dropped; /* the number that the line shows as "dropped" */
	size_t len;
	char text[];
};

struct log {
	enum log_format format;
	int fd;
	weir_limit *limit;
	weir_table *buckets;    /* keyed by event */
	log_listener *listener; /* NULL without a listener */
	void *context;
	_Atomic uint64_t dropped;
	_Atomic uint64_t newly_dropped; /* since the last line that shows them */
	pthread_mutex_t mutex;          /* of the fields below */
	pthread_cond_t changed;
	struct list lines;
	size_t waiting; /* bytes, with the line that is being written */
	bool is_closing, has_writer;
	pthread_t writer;
};

static const char *const level_names[] = {
    [LOG_INFO] = "info", [LOG_WARNING] = "warning", [LOG_ERROR] = "error"};

/* Drops a line, and with it the number of dropped lines that it would have shown. */
static void drop_line(struct log *log, uint64_t newly_dropped)
{
	atomic_fetch_add_explicit(&log->dropped, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&log->newly_dropped, 1 + newly_dropped, memory_order_relaxed);
}

static bool write_all(const struct log *log, const struct line *line)
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

/* Returns when the log is closed and all lines are written. */
static void *run_writer(void *argument)
{
	struct log *log = argument;

	pthread_mutex_lock(&log->mutex);
	for (;;) {
		struct line *line = list_of(list_pop(&log->lines), struct line, node);

		if (line) {
			pthread_mutex_unlock(&log->mutex);
			if (!write_all(log, line))
				drop_line(log, line->newly_dropped);
			pthread_mutex_lock(&log->mutex);
			log->waiting -= line->len;
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

/* Blocks all signals in the writer, so that other threads handle them. */
static bool start_writer(struct log *log)
{
	sigset_t all, before;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	log->has_writer = pthread_create(&log->writer, NULL, run_writer, log) == 0;
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return log->has_writer;
}

static void open_queue(struct log *log)
{
	pthread_condattr_t attributes;

	pthread_mutex_init(&log->mutex, NULL);
	pthread_condattr_init(&attributes);
	pthread_condattr_setclock(&attributes, CLOCK_MONOTONIC);
	pthread_cond_init(&log->changed, &attributes);
	pthread_condattr_destroy(&attributes);
}

struct log *log_open(enum log_format format, int fd)
{
	struct log *log = calloc(1, sizeof *log);

	if (!log)
		return NULL;
	log->format = format;
	log->fd = fd;
	open_queue(log);
	if (weir_limit_open(&(struct weir_limit_options){.rate = {LOG_RATE}, .burst = LOG_BURST},
	                    &log->limit, NULL) == WEIR_OK &&
	    weir_table_open(&(struct weir_table_options){.capacity = EVENTS_MAX}, &log->buckets,
	                    NULL) == WEIR_OK &&
	    start_writer(log))
		return log;
	log_close(log);
	return NULL;
}

bool log_flush(struct log *log, uint64_t timeout_ms)
{
	uint64_t end_ns = os_monotonic_ns() + timeout_ms * NS_PER_MS;
	struct timespec end = {(time_t)(end_ns / NS_PER_S), (long)(end_ns % NS_PER_S)};
	bool written;

	pthread_mutex_lock(&log->mutex);
	while (log->waiting > 0 &&
	       pthread_cond_timedwait(&log->changed, &log->mutex, &end) != ETIMEDOUT)
		;
	written = log->waiting == 0;
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
	weir_limit_close(log->limit);
	pthread_cond_destroy(&log->changed);
	pthread_mutex_destroy(&log->mutex);
	free(log);
}

/* Gives the line to the writer, or drops it if the queue is full. */
static void enqueue_line(struct log *log, const char *text, size_t len, uint64_t newly_dropped)
{
	struct line *line = malloc(sizeof *line + len);
	bool fits = false;

	if (line) {
		*line = (struct line){.newly_dropped = newly_dropped, .len = len};
		memcpy(line->text, text, len);
		pthread_mutex_lock(&log->mutex);
		fits = log->waiting + len <= LOG_QUEUE_MAX;
		if (fits) {
			list_append(&log->lines, &line->node);
			log->waiting += len;
			pthread_cond_broadcast(&log->changed);
		}
		pthread_mutex_unlock(&log->mutex);
	}
	if (!fits) {
		free(line);
		drop_line(log, newly_dropped);
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

static void add_quoted(struct buffer *out, const char *text)
{
	buffer_add(out, "\"", 1);
	buffer_add_json(out, slice_of(text));
	buffer_add(out, "\"", 1);
}

static void add_json_field(struct buffer *out, const struct log_field *field)
{
	buffer_printf(out, ",\"%s\":", field->name);
	if (field->text)
		add_quoted(out, field->text);
	else
		buffer_add_u64(out, field->number);
}

static bool is_word(const char *text)
{
	const unsigned char *p = (const unsigned char *)text;

	while (*p > ' ' && *p != '"' && *p != '=' && *p != '\\' && *p != 0x7f)
		p++;
	return *text && *p == '\0';
}

/* JSON does not escape all characters that control a terminal, so this does. */
static void add_quoted_shown(struct buffer *out, const char *text)
{
	struct buffer quoted = {0};

	add_quoted(&quoted, text);
	out->failed |= quoted.failed;
	buffer_add_printable(out, (struct slice){quoted.data, quoted.len});
	buffer_free(&quoted);
}

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
	else if (is_word(field->text))
		buffer_add_printable(out, slice_of(field->text));
	else
		add_quoted_shown(out, field->text);
}

void log_listen(struct log *log, log_listener *listener, void *context)
{
	log->listener = listener;
	log->context = context;
}

/* The parts of a line. */
struct log_line {
	uint64_t at_ns;
	enum log_level level;
	const char *event;
	struct log_field newly_dropped; /* omitted if its number is 0 */
	const struct log_field *fields;
	size_t count;
};

static void render_line(struct buffer *out, enum log_format format, const struct log_line *line)
{
	bool json = format == LOG_JSON;
	void (*add)(struct buffer * out, const struct log_field *field) =
	    json ? add_json_field : add_text_field;

	buffer_add_text(out, json ? "{\"time\":\"" : "");
	add_time(out, line->at_ns);
	buffer_printf(out, json ? "\",\"level\":\"%s\",\"event\":\"%s\"" : " %s %s",
	              level_names[line->level], line->event);
	if (line->newly_dropped.number > 0)
		add(out, &line->newly_dropped);
	for (size_t i = 0; i < line->count; i++)
		add(out, &line->fields[i]);
	if (json)
		buffer_add(out, "}", 1);
}

static void notify_listener(const struct log *log, const struct log_line *line)
{
	struct buffer json = {0};

	render_line(&json, LOG_JSON, line);
	if (!json.failed)
		log->listener(log->context, line->event, (struct slice){json.data, json.len});
	buffer_free(&json);
}

void log_write(struct log *log, enum log_level level, const char *event,
               const struct log_field *fields, size_t n)
{
	struct log_line line = {os_wall_ns(), level, event, {"dropped"}, fields, n};
	struct weir_decision decision;
	struct buffer text = {0};

	if (weir_acquire(log->buckets, log->limit, (struct weir_key){event, strlen(event)}, 1, WEIR_NOW,
	                 &decision) == WEIR_OK &&
	    !decision.allowed) {
		drop_line(log, 0);
		return;
	}
	line.newly_dropped.number =
	    atomic_exchange_explicit(&log->newly_dropped, 0, memory_order_relaxed);
	render_line(&text, log->format, &line);
	buffer_add(&text, "\n", 1);
	if (text.failed)
		drop_line(log, line.newly_dropped.number);
	else
		enqueue_line(log, text.data, text.len, line.newly_dropped.number);
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

void log_error(struct log *log, const char *event, const char *path, const struct weir_error *error)
{
	struct buffer place = {0};

	if (!path || error->line == 0) {
		log_event(log, LOG_ERROR, event, {"message", error->message});
	} else if (log->format == LOG_JSON) {
		log_event(log, LOG_ERROR, event, {"file", path}, {"line", .number = error->line},
		          {"column", .number = error->column}, {"message", error->message});
	} else {
		log_add_error(&place, path, error);
		buffer_add(&place, "", 1);
		log_event(log, LOG_ERROR, event, {"message", place.failed ? error->message : place.data});
		buffer_free(&place);
	}
}

void log_remark(struct log *log, const char *event, const struct weir_config_remark *remark)
{
	struct weir_error error;

	if (!remark->is_error && remark->line == 0 && remark->path) {
		log_event(log, LOG_WARNING, event, {"file", remark->path}, {"message", remark->text});
		return;
	}
	if (!remark->is_error && remark->line == 0) {
		log_event(log, LOG_WARNING, event, {"message", remark->text});
		return;
	}
	if (!remark->is_error) {
		log_event(log, LOG_WARNING, event, {"file", remark->path}, {"line", .number = remark->line},
		          {"column", .number = remark->column}, {"message", remark->text});
		return;
	}
	error_set_at(&error, WEIR_EINVAL, remark->line, remark->column, "%s%s%s",
	             remark->line ? "" : remark->path, remark->line ? "" : ": ", remark->text);
	log_error(log, event, remark->path, &error);
}

uint64_t log_dropped(const struct log *log)
{
	return atomic_load_explicit(&log->dropped, memory_order_relaxed);
}
