/*
 * file_watch.h: detects when files of a configuration change.
 *
 * Editors write a new file and rename it, and mounted configurations replace a symbolic link. So
 * this watches directories: that of each file, and that of each link on the way to it. A change
 * counts when no other follows for a moment and no program has the file open for writing.
 */
#ifndef SERVER_FILE_WATCH_H
#define SERVER_FILE_WATCH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define FILE_WATCH_QUIET_NS (100 * UINT64_C(1000000))
/* A program that has a file open is waited for up to this time after its last write. */
#define FILE_WATCH_OPEN_NS (10 * UINT64_C(1000000000))

/* A name in a watched directory. */
struct file_watch_name {
	int directory_wd; /* watch descriptor of inotify */
	char *path;
	const char *name;      /* the last component of `path` */
	bool is_being_written; /* and not closed yet */
};

struct file_watch {
	int fd; /* of inotify, or -1 */
	struct file_watch_name *names;
	size_t count;
	uint64_t changed_ns; /* monotonic time of the last change, or 0 */
};

/** Opens a watch without files. Returns false if the system refuses. */
bool file_watch_open(struct file_watch *watch);
void file_watch_close(struct file_watch *watch);

/**
 * Watches a file, which need not exist, until its directory is gone. Returns false if the system
 * refuses or memory is short.
 */
bool file_watch_add(struct file_watch *watch, const char *path);

/** Reads the changes up to `now_ns`; call it also when `fd` is readable. */
void file_watch_read(struct file_watch *watch, uint64_t now_ns);
/** How long until the files have to be read: 0 for at once, UINT64_MAX if they have not changed. */
uint64_t file_watch_wait_ns(const struct file_watch *watch, uint64_t now_ns);
/** Forgets all changes, because the files are read now. */
void file_watch_reset(struct file_watch *watch);

#endif
