/*
 * file_watch.c: detects when files of a configuration change, by inotify watches of the directories
 * that lead to them, and waits until their writers are ready.
 */
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

#define WATCHED_EVENTS                                                                             \
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

static struct file_watch_name *find_watched_name(const struct file_watch *watch, int directory_wd,
                                                 const char *name)
{
	for (size_t i = 0; i < watch->count; i++)
		if (watch->names[i].directory_wd == directory_wd && strcmp(watch->names[i].name, name) == 0)
			return &watch->names[i];
	return NULL;
}

/* Copies the last component of a path to `name`, and shortens `path` to its directory. */
static char *split_last_name(char *path, char name[NAME_MAX + 1])
{
	char *slash = strrchr(path, '/');
	const char *last = slash ? slash + 1 : path;
	size_t len = strnlen(last, NAME_MAX);

	memcpy(name, last, len);
	name[len] = '\0';
	if (!slash)
		strcpy(path, ".");
	else if (slash == path)
		path[1] = '\0';
	else
		*slash = '\0';
	return name;
}

/* Returns false if memory is short. */
static bool append_name(struct file_watch *watch, int directory_wd, const char *directory,
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
	    (struct file_watch_name){directory_wd, path, path + strlen(directory) + 1, false};
	return true;
}

/* Removes the names of a directory that is gone. */
static void drop_directory(struct file_watch *watch, int directory_wd)
{
	size_t remaining = 0;

	for (size_t i = 0; i < watch->count; i++) {
		if (watch->names[i].directory_wd == directory_wd)
			free(watch->names[i].path);
		else
			watch->names[remaining++] = watch->names[i];
	}
	watch->count = remaining;
}

/*
 * Watches for changes of `path` in its directory. If that is missing, watches the nearest directory
 * above for the next name on the way. Returns false if the system refuses or memory is short.
 */
static bool watch_name(struct file_watch *watch, const char *path)
{
	char directory[PATH_MAX], name[NAME_MAX + 1];
	int directory_wd;

	snprintf(directory, sizeof directory, "%s", path);
	do {
		split_last_name(directory, name);
		directory_wd = inotify_add_watch(watch->fd, directory, WATCHED_EVENTS | IN_ONLYDIR);
	} while (directory_wd < 0 && (errno == ENOENT || errno == ENOTDIR) &&
	         strcmp(directory, ".") != 0 && strcmp(directory, "/") != 0);
	if (directory_wd < 0)
		return false;
	return find_watched_name(watch, directory_wd, name) ||
	       append_name(watch, directory_wd, directory, name);
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

/* Watches each symbolic link on the way to the file, replaced by its target in turn, and the file.
 */
bool file_watch_add(struct file_watch *watch, const char *path)
{
	char current[PATH_MAX], target[PATH_MAX], resolved[PATH_MAX];
	size_t end;

	if (strlen(path) >= sizeof current || *path == '\0')
		return false;
	strcpy(current, path);
	for (int links = 0; links < LINKS_MAX && (end = find_link(current, target)) > 0; links++) {
		char link[PATH_MAX], name[NAME_MAX + 1];
		const char *rest = current + end;
		bool is_absolute = *target == '/';
		int length;

		snprintf(link, sizeof link, "%.*s", (int)end, current);
		if (!watch_name(watch, link))
			return false;
		split_last_name(link, name); /* `link` is its directory now */
		length = is_absolute ? snprintf(resolved, sizeof resolved, "%s%s", target, rest)
		                     : snprintf(resolved, sizeof resolved, "%s/%s%s", link, target, rest);
		if (length < 0 || (size_t)length >= sizeof resolved)
			return false;
		strcpy(current, resolved);
	}
	return watch_name(watch, current);
}

/*
 * Whether a name that appeared in a directory is a new file, whose writer still has it open, rather
 * than a directory or a further hard link of a finished file.
 */
static bool is_new_file(const char *path)
{
	struct stat file;

	return lstat(path, &file) == 0 && S_ISREG(file.st_mode) && file.st_nlink == 1;
}

/* Records a change of a watched name, and whether a program is still writing that file. */
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
	name->is_being_written =
	    event->mask & IN_MODIFY || (event->mask & IN_CREATE && is_new_file(name->path));
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
	uint64_t quiet_ns = FILE_WATCH_QUIET_NS; /* without a change before the files are read */

	if (watch->changed_ns == 0)
		return UINT64_MAX;
	for (size_t i = 0; i < watch->count; i++)
		if (watch->names[i].is_being_written)
			quiet_ns = FILE_WATCH_OPEN_NS;
	return sat_sub(watch->changed_ns + quiet_ns, now_ns);
}

void file_watch_reset(struct file_watch *watch)
{
	file_watch_read(watch, 0); /* to discard the events so far */
	watch->changed_ns = 0;
	for (size_t i = 0; i < watch->count; i++)
		watch->names[i].is_being_written = false;
}
