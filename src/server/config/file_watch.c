#include "server/config/file_watch.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/inotify.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/number.h"

#define EVENTS                                                                                     \
	(IN_MODIFY | IN_CLOSE_WRITE | IN_CREATE | IN_DELETE | IN_MOVED_FROM | IN_MOVED_TO |            \
	 IN_DELETE_SELF | IN_MOVE_SELF)
#define LINKS_MAX 40 /* symbolic links on the way to a file, as in Linux */

bool file_watch_open(struct file_watch *watch)
{
	*watch = (struct file_watch){.fd = inotify_init1(IN_NONBLOCK | IN_CLOEXEC)};
	return watch->fd >= 0;
}

void file_watch_close(struct file_watch *watch)
{
	if (watch->fd >= 0)
		close(watch->fd);
	for (size_t i = 0; i < watch->count; i++)
		free(watch->names[i].path);
	free(watch->names);
	*watch = (struct file_watch){.fd = -1};
}

static struct file_watch_name *find_watched_name(const struct file_watch *watch, int directory,
                                                 const char *name)
{
	for (size_t i = 0; i < watch->count; i++)
		if (watch->names[i].directory == directory && strcmp(watch->names[i].name, name) == 0)
			return &watch->names[i];
	return NULL;
}

/* Splits a path: returns its last name, and shortens `path` to the directory. */
static char *cut_name(char *path, char name[NAME_MAX + 1])
{
	char *slash = strrchr(path, '/');
	const char *last = slash ? slash + 1 : path;

	snprintf(name, NAME_MAX + 1, "%s", last);
	if (!slash)
		strcpy(path, ".");
	else if (slash == path)
		path[1] = '\0';
	else
		*slash = '\0';
	return name;
}

static bool append_name(struct file_watch *watch, int number, const char *directory,
                        const char *name)
{
	struct file_watch_name *grown = realloc(watch->names, (watch->count + 1) * sizeof *grown);
	char *path;

	if (!grown)
		return false;
	watch->names = grown;
	if (asprintf(&path, "%s/%s", directory, name) < 0)
		return false;
	grown[watch->count++] =
	    (struct file_watch_name){number, path, path + strlen(directory) + 1, false};
	return true;
}

/* Removes the names of a directory that is gone. */
static void drop_directory(struct file_watch *watch, int directory)
{
	size_t remaining = 0;

	for (size_t i = 0; i < watch->count; i++) {
		if (watch->names[i].directory == directory)
			free(watch->names[i].path);
		else
			watch->names[remaining++] = watch->names[i];
	}
	watch->count = remaining;
}

/* Watches the nearest existing directory above the name, because missing ones may be created. */
static bool add_name(struct file_watch *watch, const char *path)
{
	char directory[PATH_MAX], name[NAME_MAX + 1];
	int number;

	snprintf(directory, sizeof directory, "%s", path);
	do {
		cut_name(directory, name);
		number = inotify_add_watch(watch->fd, directory, EVENTS | IN_ONLYDIR);
	} while (number < 0 && (errno == ENOENT || errno == ENOTDIR) && strcmp(directory, ".") != 0 &&
	         strcmp(directory, "/") != 0);
	if (number < 0)
		return false;
	return find_watched_name(watch, number, name) || append_name(watch, number, directory, name);
}

/*
 * Finds the first symbolic link in `path` and its target. Returns the length of the path up to the
 * link's name, or 0 without a link.
 */
static size_t find_link(const char *path, char target[PATH_MAX])
{
	for (size_t end = 1; path[end - 1] != '\0'; end++) {
		char prefix[PATH_MAX];
		ssize_t length;

		if (path[end] != '/' && path[end] != '\0')
			continue;
		snprintf(prefix, sizeof prefix, "%.*s", (int)end, path);
		length = readlink(prefix, target, PATH_MAX - 1);
		if (length > 0) {
			target[length] = '\0';
			return end;
		}
		if (path[end] == '\0')
			break;
	}
	return 0;
}

bool file_watch_add(struct file_watch *watch, const char *path)
{
	char now[PATH_MAX], target[PATH_MAX], next[PATH_MAX];
	size_t end;

	if (strlen(path) >= sizeof now || *path == '\0')
		return false;
	strcpy(now, path);
	for (int links = 0; links < LINKS_MAX && (end = find_link(now, target)) > 0; links++) {
		char link[PATH_MAX], name[NAME_MAX + 1];
		int length;

		snprintf(link, sizeof link, "%.*s", (int)end, now);
		if (!add_name(watch, link))
			return false;
		cut_name(link, name);
		length = snprintf(next, sizeof next, "%s%s%s%s", *target == '/' ? "" : link,
		                  *target == '/' ? "" : "/", target, now + end);
		if (length < 0 || (size_t)length >= sizeof next)
			return false;
		strcpy(now, next);
	}
	return add_name(watch, now);
}

/* Whether a created file is new: it is empty until its writer closes it. */
static bool is_new(const char *path)
{
	struct stat file;

	return lstat(path, &file) == 0 && S_ISREG(file.st_mode) && file.st_nlink == 1;
}

static void handle_event(struct file_watch *watch, const struct inotify_event *event,
                         uint64_t now_ns)
{
	struct file_watch_name *name =
	    event->len > 0 ? find_watched_name(watch, event->wd, event->name) : NULL;

	if (event->mask & (IN_DELETE_SELF | IN_MOVE_SELF | IN_Q_OVERFLOW))
		watch->changed_ns = now_ns;
	if (event->mask & IN_IGNORED)
		drop_directory(watch, event->wd);
	if (!name)
		return;
	watch->changed_ns = now_ns;
	name->is_open = event->mask & IN_MODIFY || (event->mask & IN_CREATE && is_new(name->path));
}

void file_watch_read(struct file_watch *watch, uint64_t now_ns)
{
	_Alignas(struct inotify_event) char events[4096];
	ssize_t got;

	while (watch->fd >= 0 && (got = read(watch->fd, events, sizeof events)) > 0)
		for (char *at = events; at < events + got;) {
			const struct inotify_event *event = (const void *)at;

			handle_event(watch, event, now_ns);
			at += sizeof *event + event->len;
		}
}

uint64_t file_watch_wait_ns(const struct file_watch *watch, uint64_t now_ns)
{
	uint64_t quiet_ns = FILE_WATCH_QUIET_NS;

	if (watch->changed_ns == 0)
		return UINT64_MAX;
	for (size_t i = 0; i < watch->count; i++)
		if (watch->names[i].is_open)
			quiet_ns = FILE_WATCH_OPEN_NS;
	return sat_sub(watch->changed_ns + quiet_ns, now_ns);
}

void file_watch_reset(struct file_watch *watch)
{
	file_watch_read(watch, 0);
	watch->changed_ns = 0;
	for (size_t i = 0; i < watch->count; i++)
		watch->names[i].is_open = false;
}
