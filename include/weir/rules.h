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
 * Reads and checks the whole file before anything of it is used.
 * Errors: EIO (can't be read), ESYNTAX or EINVAL with line and column in
 * `error` and "expected …, found …" as its message, ELONG (more than 16 MiB),
 * ENOMEM. On error *out is NULL. Free with weir_config_close.
 */
WEIR_API int weir_config_read_file(const char *path, weir_config **out, struct weir_error *error);

/** The same from memory. Dictionaries (`in: FILE`) are found relative to `directory`. */
WEIR_API int weir_config_read_yaml(const char *text, size_t len, const char *directory,
                                   weir_config **out, struct weir_error *error);

#ifdef __cplusplus
}
#endif
#endif
