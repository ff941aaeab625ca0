/*
 * denial_files.h: searches the files of a server's denials (`denials: { file: PATH }`), which hold
 * more than its memory. Needs no server, and memory for the denials that are listed only.
 */
#ifndef CLI_REMOTE_WHY_DENIAL_FILES_H
#define CLI_REMOTE_WHY_DENIAL_FILES_H

#include "server/denials/denial_sample.h"

/* Zeroed at first. */
struct denial_files {
	struct buffer json;  /* the array of the denials that are listed, the newest first */
	uint64_t found;      /* so many were admitted: only the newest filter->count_max are listed */
	uint64_t read_count; /* so many are in the files */
	uint64_t skipped;    /* lines that are no denials */
	uint64_t oldest_ns;  /* when the oldest in the files was; 0 for none */
};

/**
 * Lists the denials that the filter admits, in PATH and PATH.1, PATH.2 and so on. Files that hold
 * no denials are skipped, but for PATH. Returns 0 or an error, and either way free out->json.
 */
int denial_files_list(const char *path, const struct denial_filter *filter,
                      struct denial_files *out, struct weir_error *error);

#endif
