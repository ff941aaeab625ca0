/*
 * rules.h: reads rule files (libweir_rules). The format is in docs/rules.md.
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
 * Reads and checks the file at `path`. If the path ends in .conf, the file is in Koala's language
 * (docs/koala.md), otherwise in YAML. Close the configuration with weir_config_close. The keys of
 * a server, such as `listen`, `store` and `capacity`, are checked, but have no effect in a program.
 *
 *     weir_config *config;
 *     if (weir_config_read_file("weir.yaml", &config, &error) != 0)
 *         fprintf(stderr, "weir.yaml:%u:%u: %s\n", error.line, error.column, error.message);
 *
 * Errors: EIO (the file cannot be read), ESYNTAX and EINVAL (with line and column, and "expected
 * …, found …" as the message), ELONG (more than 16 MiB), ENOMEM.
 */
WEIR_API int weir_config_read_file(const char *path, weir_config **out, struct weir_error *error);

/** A remark about a file: an error, or a warning about a legal text that is unlikely meant. */
struct weir_config_remark {
	const char *path; /**< as it was given, or NULL if it is about no file */
	unsigned line;    /**< from 1, or 0 if it is about the file as a whole */
	unsigned column;  /**< from 1, or 0 if it is about the line as a whole */
	bool is_error;    /**< false: a warning */
	const char *text; /**< "expected …, found …" */
	uint64_t reserved[2];
};

/** Receives a remark. The remark lives until this returns. */
typedef void weir_config_say(void *context, const struct weir_config_remark *remark);

/** Receives the path of a file. */
typedef void weir_config_file(void *context, const char *path);

/** The files of a configuration, and functions that receive what the reader finds. */
struct weir_config_files {
	const char *const *paths;
	size_t count;           /**< of `paths` */
	weir_config_say *say;   /**< receives every remark, in the order of files and lines; or NULL */
	weir_config_file *file; /**< receives every file, also dictionaries, before the reader tries to
	                             open it; or NULL */
	void *context;          /**< the first argument of `say` and `file` */
	uint64_t reserved[3];
};

/**
 * Reads several files into one configuration: at most one YAML file, and any number of Koala's.
 * The rules of these stand in the order of `paths`.
 *
 *     const char *paths[] = {"weir.yaml", "koala.conf"};
 *     struct weir_config_files files = {.paths = paths, .count = 2};
 *     if (weir_config_read_files(&files, &config, &error) != 0)
 *         fprintf(stderr, "%s\n", error.message);
 *
 * Errors: as weir_config_read_file. `error` is the first error that `say` receives; with several
 * files the path stands before its message. EINVAL also for two YAML files, for equal names in two
 * files, and for `reserved`.
 */
WEIR_API int weir_config_read_files(const struct weir_config_files *files, weir_config **out,
                                    struct weir_error *error);

/**
 * Reads and checks a text in YAML of `len` bytes, which need not end in NUL. Paths of other files
 * in it are relative to `directory`, or to the working directory if `directory` is NULL.
 *
 *     const char *text = "limits: {login: {algorithm: token_bucket, rate: 5/m}}";
 *     if (weir_config_read_yaml(text, strlen(text), ".", &config, &error) != 0)
 *         fprintf(stderr, "%u:%u: %s\n", error.line, error.column, error.message);
 *
 * Errors: as weir_config_read_file; EINVAL also for a NULL text with a length.
 */
WEIR_API int weir_config_read_yaml(const char *text, size_t len, const char *directory,
                                   weir_config **out, struct weir_error *error);

#ifdef __cplusplus
}
#endif
#endif
