/*
 * denial_file.h: keeps denials in files, so that they outlast a restart: JSON lines
 * (denial_line.h).
 *
 * PATH has the newest; when it is full it becomes PATH.1, that becomes PATH.2, and so on. They take
 * at most `rotate` x `files` bytes. A thread writes the lines, so no loop waits for a disk.
 * DENIAL_FILE_QUEUE_MAX bytes may wait for it. A line that finds no space there or on the disk is
 * lost and counted, and the log has one warning. If an earlier configuration had more files, the
 * oldest are removed.
 *
 * The files may have been changed by others. So a symbolic link, a file of another user, and a file
 * that does not begin as ours are not written. A PATH.N that is no file of denials is neither
 * replaced nor removed: rotation leaves its number out. If PATH is removed or renamed, it is opened
 * anew before the next lines. Lines that are no denials are skipped with a warning.
 */
#ifndef SERVER_DENIAL_FILE_H
#define SERVER_DENIAL_FILE_H

#include "rules/model.h"
#include "server/admin/event_log.h"
#include "server/denials/denial_sample.h"

#define DENIAL_FILE_QUEUE_MAX ((size_t)1 << 20)
#define DENIAL_FILES_MAX      100                  /* `files` of a configuration is no more */
#define DENIAL_FILE_READ_MAX  ((uint64_t)64 << 20) /* the newest bytes that are read at a start */

struct denial_file_options {
	const char *path;
	uint64_t rotate; /* bytes of a file */
	uint64_t files;  /* how many, with PATH itself */
	struct log *log;
};

/** Adds the denials of the files to the sample, the oldest first. Logs what can't be read. */
void denial_file_read(const struct denial_file_options *options, struct denial_sample *sample);

struct denial_file;

/** Copies the options, and starts the thread, which opens the file. NULL if memory is short. */
struct denial_file *denial_file_open(const struct denial_file_options *options);
/** Waits up to a second for lines that are not written yet. NULL does nothing. */
void denial_file_close(struct denial_file *file);

/** Queues the line of a denial (denial_line.h). Any thread may call it. */
void denial_file_add(struct denial_file *file, struct slice json, struct slice values);

/** Whether a file (or NULL) has the options that a configuration wants. */
bool denial_file_is_of(const struct denial_file *file, const struct rules_denials *denials);

/** How many lines were lost; 0 for NULL. */
uint64_t denial_file_lost(const struct denial_file *file);

#endif
