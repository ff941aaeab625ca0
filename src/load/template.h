/* template.h: builds the bytes of a request once, and fills in the key of each request. */
#ifndef LOAD_TEMPLATE_H
#define LOAD_TEMPLATE_H

#include <stddef.h>
#include <stdint.h>

#include <weir/weir.h>

#include "base/buffer.h"

#define TEMPLATE_KEYS_MAX 8
#define TEMPLATE_SIZE_MAX 65536

/* Zeroed is empty. */
struct template
{
	struct buffer bytes;
	size_t key_offsets[TEMPLATE_KEYS_MAX]; /* where the digits that vary begin */
	size_t key_count;
	size_t key_len; /* in bytes: decimal, zeros before it */
	size_t digits;  /* the last bytes of a key, which vary */
};

/**
 * Build the request from a RESP command, which is split at blanks, or from a path and complete
 * header lines. Each "{key}" becomes `key_len` digits, of which the last `digits` vary. Errors:
 * EINVAL, ENOMEM.
 */
int template_resp(struct template *out, const char *command, size_t key_len, size_t digits,
                  struct weir_error *error);
int template_http(struct template *out, const char *path, const char *fields, size_t key_len,
                  size_t digits, struct weir_error *error);

/** Writes `key` into a copy of the bytes. */
void template_fill(const struct template *template, char *request, uint64_t key);

/** Overwrites the bytes, which may contain a login. */
void template_free(struct template *template);

#endif
