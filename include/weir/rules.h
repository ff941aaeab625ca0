/*
 * rules.h: read rule files (libweir_rules). The format is in docs/rules.md.
 *
 * Conventions as in weir.h.
 */
#ifndef WEIR_RULES_H
#define WEIR_RULES_H

#include <weir/weir.h>

#ifdef __cplusplus
extern "C" {
#endif

/**
 * Reads and checks a whole file. A file whose name ends in .conf is in Koala's language
 * (docs/koala.md), any other in YAML.
 * Errors: EIO (can't be read), ESYNTAX or EINVAL with line and column in
 * `error` and "expected …, found …" as its message, ELONG (more than 16 MiB),
 * ENOMEM. On error *out is NULL. Free with weir_config_close.
 */
WEIR_API int weir_config_read_file(const char *path, weir_config **out, struct weir_error *error);

/** A remark about a file: an error, or a warning about a legal text that is unlikely meant. */
struct weir_config_remark {
	const char *path; /**< as it was given; NULL: about no file */
	unsigned line;    /**< from 1; 0: about the file as a whole */
	unsigned column;
	bool is_error;
	const char *text; /**< "expected …, found …" */
	uint64_t reserved[2];
};

/** Receives a remark. The remark lives until this returns. */
typedef void weir_config_say(void *context, const struct weir_config_remark *remark);

/** Receives the path of a file. */
typedef void weir_config_file(void *context, const char *path);

struct weir_config_files {
	const char *const *paths;
	size_t count;
	weir_config_say *say;   /**< receives every remark, in the order of files and lines; or NULL */
	weir_config_file *file; /**< receives every file, also dictionaries, before the reader tries to
	                             open it; or NULL */
	void *context;
	uint64_t reserved[3];
};

/**
 * Reads several files into one configuration: at most one YAML file, and any number of Koala's.
 * The rules of these stand in the order of `paths`.
 *
 *     const char *paths[] = { "weir.yaml", "koala.conf" };
 *     weir_config_read_files(&(struct weir_config_files){ .paths = paths, .count = 2 }, &config, &error);
 *
 * Errors: as weir_config_read_file. `error` is the first error that `say` receives; with several
 * files the path stands before its message. EINVAL also for two YAML files, for equal names in two
 * files, and for `reserved`.
 */
WEIR_API int weir_config_read_files(const struct weir_config_files *files, weir_config **out,
                                    struct weir_error *error);

/** Reads a text in YAML. The paths of dictionaries (`in: FILE`) are relative to `directory`. */
WEIR_API int weir_config_read_yaml(const char *text, size_t len, const char *directory,
                                   weir_config **out, struct weir_error *error);

#ifdef __cplusplus
}
#endif
#endif
