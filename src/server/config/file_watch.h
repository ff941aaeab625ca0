/*
 * file_watch.h: tells when files change that a configuration was read from.
 *
 * Editors write a new file and rename it, and mounted configurations swap a symbolic link. So this
 * watches directories: that of each file, and that of each link on the way to it. A change counts
 * when all is quiet for a moment and no program has such a file open for writing.
 */
#ifndef SERVER_FILE_WATCH_H
#define SERVER_FILE_WATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FILE_WATCH_QUIET_NS (100 * UINT64_C(1000000))
/* A program that writes for so long without a pause of this length is waited for no longer. */
#define FILE_WATCH_OPEN_NS (10 * UINT64_C(1000000000))

/* A name in a watched directory. */
struct file_watch_name {
	int directory; /* as inotify numbers it */
	char *path;
	const char *name; /* the last one of `path` */
	bool is_open;     /* it was written to, and not closed */
};

struct file_watch {
	int fd; /* of inotify; -1: none */
	struct file_watch_name *names;
	size_t count;
	uint64_t changed_ns; /* monotonic: the last change; 0: none that is not read */
};

/** Watches nothing yet; false: the system refuses. */
bool file_watch_open(struct file_watch *watch);
void file_watch_close(struct file_watch *watch);

/**
 * Watches a file, from then on until its directory is gone. It need not be there. False: the
 * system refuses, or there is no memory.
 */
bool file_watch_add(struct file_watch *watch, const char *path);

/** Takes note of what has happened, at `now_ns`; call it when `fd` is readable, too. */
void file_watch_read(struct file_watch *watch, uint64_t now_ns);
/** How long until the files are to be read: 0 at once, UINT64_MAX: they have not changed. */
uint64_t file_watch_wait_ns(const struct file_watch *watch, uint64_t now_ns);
/** They are read now: what has happened until then is over. */
void file_watch_reset(struct file_watch *watch);

#endif
