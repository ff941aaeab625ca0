/*
 * denial_file.c: writes denials to files that rotate, by a thread of its own.
 */
#include "server/denials/denial_file.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/number.h"
#include "base/os/deadline.h"
#include "base/os/os.h"
#include "base/os/thread.h"
#include "server/denials/denial_line.h"
#include "server/denials/denial_path.h"

#define CLOSE_TIMEOUT_NS NS_PER_S
#define OPEN_RETRY_NS    NS_PER_S        /* between two attempts to open the file */
#define WARNING_REST_NS  (60 * NS_PER_S) /* between two warnings */

struct denial_file {
	struct denial_file_options options; /* `path` is a copy */
	char *from, *to;                    /* space for the names PATH.N */
	_Atomic uint64_t lost;
	pthread_mutex_t mutex; /* of the fields below */
	pthread_cond_t changed;
	struct buffer queue; /* lines with their newlines */
	bool is_closing, has_writer, is_idle;
	bool is_abandoned; /* nobody waits for the writer any more */
	pthread_t writer;
	/* The fields below belong to the writer. */
	int fd; /* -1 while the file is not open */
	dev_t device;
	ino_t inode; /* by which the open file is known */
	uint64_t size;
	uint64_t next_attempt_ns, next_warning_ns; /* by the monotonic clock */
	bool has_failed;                           /* since the last line that was written */
};

/* Queues a line of the log. It is closed soon after a denial_file_close that did not wait. */
static void log_state(struct denial_file *file, enum log_level level, const char *event,
                      const char *message)
{
	pthread_mutex_lock(&file->mutex);
	if (!file->is_abandoned && message)
		log_event(file->options.log, level, event, {"file", file->options.path},
		          {"message", message});
	else if (!file->is_abandoned)
		log_event(file->options.log, level, event, {"file", file->options.path});
	pthread_mutex_unlock(&file->mutex);
}

static void warn_of_failure(struct denial_file *file, const char *what)
{
	uint64_t now_ns = os_monotonic_ns();

	file->has_failed = true;
	if (now_ns < file->next_warning_ns)
		return;
	file->next_warning_ns = now_ns + WARNING_REST_NS;
	log_state(file, LOG_WARNING, "denials_lost", what);
}

/* Returns NULL if the open file may be written, or what is wrong with it. */
static const char *refuse_file(int fd, const struct stat *info)
{
	if (info->st_nlink != 1)
		return "expected a file of one name, found one with several links";
	if (!denial_path_begins_as_ours(fd))
		return "expected a file of denials, found another beginning";
	if (flock(fd, LOCK_EX | LOCK_NB) != 0)
		return "expected a file that no other process writes, found it locked";
	return fchmod(fd, 0600) == 0 ? NULL : strerror(errno);
}

/* Cuts off a last line that has no end, which a crash or a full disk has left. */
static bool cut_torn_line(int fd, uint64_t *size)
{
	char tail[2 * DENIAL_LINE_MAX];
	size_t n = u64_min(*size, sizeof tail);

	if (n == 0)
		return true;
	if (pread(fd, tail, n, (off_t)(*size - n)) != (ssize_t)n)
		return false;
	for (size_t i = n; i > 0; i--)
		if (tail[i - 1] == '\n') {
			*size -= n - i;
			return i == n || ftruncate(fd, (off_t)*size) == 0;
		}
	*size -= n == *size ? n : 0;
	return n == sizeof tail || ftruncate(fd, 0) == 0;
}

static bool open_file(struct denial_file *file)
{
	struct stat info;
	const char *why;

	if (os_monotonic_ns() < file->next_attempt_ns)
		return false;
	file->next_attempt_ns = os_monotonic_ns() + OPEN_RETRY_NS;
	file->fd = denial_path_open(file->options.path, O_RDWR | O_CREAT | O_APPEND, &info, &why);
	if (!why)
		why = refuse_file(file->fd, &info);
	if (!why) {
		file->size = (uint64_t)info.st_size;
		file->device = info.st_dev;
		file->inode = info.st_ino;
		if (cut_torn_line(file->fd, &file->size))
			return true;
		why = strerror(errno);
	}
	warn_of_failure(file, why);
	if (file->fd >= 0)
		close(file->fd);
	file->fd = -1;
	return false;
}

/* Closes the file, so that the next line opens it anew. */
static void close_file(struct denial_file *file)
{
	if (file->fd >= 0)
		close(file->fd);
	file->fd = -1;
	file->next_attempt_ns = 0;
}

/* Whether PATH.N may be replaced. Anything but a file of denials is left alone, with a warning. */
static bool may_replace(struct denial_file *file, uint64_t n)
{
	const char *name = denial_path_of(file->options.path, n, file->to);
	struct stat info;

	if ((lstat(name, &info) != 0 && errno == ENOENT) || denial_path_is_ours(name))
		return true;
	log_state(file, LOG_WARNING, "denials_name_taken", name);
	return false;
}

/* Renames PATH.FROM to PATH.TO, or removes it if TO is 0. Returns false after a failure. */
static bool move_file(struct denial_file *file, uint64_t from, uint64_t to)
{
	const char *path = file->options.path, *name = denial_path_of(path, from, file->from);
	int status = to > 0 ? rename(name, denial_path_of(path, to, file->to)) : unlink(name);

	if (status == 0 || errno == ENOENT)
		return true;
	warn_of_failure(file, strerror(errno));
	return false;
}

/*
 * Begins a new file. Each file gets the name of the next older one, except names that others have
 * taken. The oldest is replaced by the one before it, or removed if it is the only.
 */
static bool rotate_files(struct denial_file *file)
{
	uint64_t older = 0; /* the number that the next file gets */

	close_file(file);
	for (uint64_t i = file->options.files - 1; i > 0; i--) {
		if (!may_replace(file, i))
			continue;
		if (older > 0 && !move_file(file, i, older))
			return false;
		older = i;
	}
	return move_file(file, 0, older) && open_file(file);
}

/* Opens the file anew if its name was removed or given to another: nobody would find the lines. */
static void follow_name(struct denial_file *file)
{
	struct stat info;

	if (file->fd < 0 || (lstat(file->options.path, &info) == 0 && info.st_ino == file->inode &&
	                     info.st_dev == file->device))
		return;
	close_file(file);
	log_state(file, LOG_WARNING, "denials_file_moved", "it was removed or renamed by others");
}

/* Writes a line with its newline, or loses it. A part that was written is cut off again. */
static bool write_line(struct denial_file *file, const char *line, size_t len)
{
	ssize_t n;

	if (file->fd < 0 && !open_file(file))
		return false;
	if (file->size + len > file->options.rotate && file->size > 0 && !rotate_files(file))
		return false;
	if (file->size + len > file->options.rotate)
		return false; /* longer than a file may be, or the full file could not be moved away */
	n = write(file->fd, line, len);
	if (n == (ssize_t)len) {
		file->size += len;
		if (file->has_failed)
			log_state(file, LOG_INFO, "denials_written", NULL);
		file->has_failed = false;
		return true;
	}
	warn_of_failure(file, n < 0 ? strerror(errno) : "no space left for a whole line");
	if (n > 0 && ftruncate(file->fd, (off_t)file->size) != 0) {
		close(file->fd); /* the part is cut off when it is opened again */
		file->fd = -1;
	}
	return false;
}

static void write_lines(struct denial_file *file, const struct buffer *lines)
{
	const char *at = lines->data, *end = at + lines->len;

	follow_name(file);
	while (at < end) {
		const char *newline = memchr(at, '\n', (size_t)(end - at));
		size_t len = (size_t)(newline + 1 - at); /* each line has its newline */

		if (!write_line(file, at, len))
			atomic_fetch_add_explicit(&file->lost, 1, memory_order_relaxed);
		at += len;
	}
}

/* Removes the older files that an earlier configuration with more `files` has left. */
static void remove_surplus_files(struct denial_file *file)
{
	for (uint64_t i = file->options.files; i < DENIAL_FILES_MAX; i++) {
		const char *name = denial_path_of(file->options.path, i, file->from);

		if (denial_path_is_ours(name) && unlink(name) == 0)
			log_state(file, LOG_INFO, "denials_removed", name);
	}
}

/* The writer's thread. Returns when the file is closed and all lines are written. */
static void *run_writer(void *argument)
{
	struct denial_file *file = argument;

	if (open_file(file)) { /* which has locked it, so no other server writes these files */
		remove_surplus_files(file);
		for (uint64_t i = 1; i < file->options.files; i++)
			may_replace(file, i); /* warns early of names that will not be used */
	}
	pthread_mutex_lock(&file->mutex);
	for (;;) {
		struct buffer lines = file->queue;

		file->queue = (struct buffer){.max = DENIAL_FILE_QUEUE_MAX};
		file->is_idle = lines.len == 0;
		if (file->is_idle)
			pthread_cond_broadcast(&file->changed); /* denial_file_close may wait for this */
		if (file->is_idle && file->is_closing)
			break;
		if (file->is_idle) {
			buffer_free(&lines);
			pthread_cond_wait(&file->changed, &file->mutex);
			continue;
		}
		pthread_mutex_unlock(&file->mutex);
		write_lines(file, &lines);
		buffer_free(&lines);
		pthread_mutex_lock(&file->mutex);
	}
	pthread_mutex_unlock(&file->mutex);
	return NULL;
}

void denial_file_add(struct denial_file *file, struct slice json, struct slice values)
{
	bool fits;

	pthread_mutex_lock(&file->mutex);
	fits = file->queue.len + DENIAL_LINE_MAX < DENIAL_FILE_QUEUE_MAX &&
	       buffer_reserve(&file->queue, DENIAL_LINE_MAX + 1) != NULL;
	if (fits) {
		denial_line_write(&file->queue, json, values);
		pthread_cond_broadcast(&file->changed);
	}
	file->queue.failed = false; /* a line that found no memory is lost, later ones may find it */
	pthread_mutex_unlock(&file->mutex);
	if (!fits)
		atomic_fetch_add_explicit(&file->lost, 1, memory_order_relaxed);
}

bool denial_file_is_of(const struct denial_file *file, const struct rules_denials *denials)
{
	if (!file || !denials->file)
		return !file && (!denials->file || denials->keep == 0);
	return strcmp(file->options.path, denials->file) == 0 &&
	       file->options.rotate == denials->rotate && file->options.files == denials->files;
}

uint64_t denial_file_lost(const struct denial_file *file)
{
	return file ? atomic_load_explicit(&file->lost, memory_order_relaxed) : 0;
}

static bool start_writer(struct denial_file *file)
{
	file->has_writer = thread_start(&file->writer, run_writer, file) == 0;
	return file->has_writer;
}

struct denial_file *denial_file_open(const struct denial_file_options *options)
{
	struct denial_file *file = calloc(1, sizeof *file);
	size_t name_size = strlen(options->path) + DENIAL_PATH_SUFFIX_MAX;

	if (!file)
		return NULL;
	file->options = *options;
	file->options.path = strdup(options->path);
	file->from = malloc(name_size);
	file->to = malloc(name_size);
	file->fd = -1;
	file->queue.max = DENIAL_FILE_QUEUE_MAX;
	pthread_mutex_init(&file->mutex, NULL);
	condition_init(&file->changed);
	if (file->options.path && file->from && file->to && start_writer(file))
		return file;
	denial_file_close(file);
	return NULL;
}

/* Waits until all lines are written. Returns false if the time ended before. */
static bool flush_queue(struct denial_file *file)
{
	uint64_t end_ns = os_monotonic_ns() + CLOSE_TIMEOUT_NS;
	bool is_written;

	pthread_mutex_lock(&file->mutex);
	file->is_closing = true;
	pthread_cond_broadcast(&file->changed);
	while (!(file->is_idle && file->queue.len == 0) &&
	       condition_wait_until(&file->changed, &file->mutex, end_ns) != ETIMEDOUT)
		;
	is_written = file->is_idle && file->queue.len == 0;
	file->is_abandoned = !is_written;
	pthread_mutex_unlock(&file->mutex);
	return is_written;
}

void denial_file_close(struct denial_file *file)
{
	if (!file)
		return;
	if (file->has_writer && !flush_queue(file)) {
		/* The disk may block for ever. The writer ends with the process, so its memory must stay.
		 */
		pthread_detach(file->writer);
		return;
	}
	if (file->has_writer)
		pthread_join(file->writer, NULL);
	if (file->fd >= 0)
		close(file->fd);
	buffer_free(&file->queue);
	pthread_cond_destroy(&file->changed);
	pthread_mutex_destroy(&file->mutex);
	free((char *)file->options.path);
	free(file->from);
	free(file->to);
	free(file);
}
