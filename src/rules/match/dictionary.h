/*
 * dictionary.h: looks values up in a list of words or addresses, one to a line of a file, up to
 * millions.
 *
 * A dictionary is made once, and then only read. Blanks around a line do not count. Empty lines,
 * and lines that begin with #, are ignored. Each entry is a word. It may also stand for addresses:
 *
 * - a range (10.0.0.0/8, 10.0.0.*, 10.0.0.1-10.0.0.9; of IPv6, too) for each address in it
 * - 10.*.0.* for each address that matches
 * - an address for each spelling of it
 */
#ifndef RULES_DICTIONARY_H
#define RULES_DICTIONARY_H

#include <stdbool.h>
#include <stddef.h>

#include <weir/weir.h>

#include "base/network/ip.h"
#include "base/slice.h"

struct dictionary;

#define DICTIONARY_BYTES_MAX ((size_t)1 << 30) /* of a file */
#define DICTIONARY_WORD_MAX  1024              /* bytes */

/** Is told of a line that is no entry. */
struct dictionary_reporter {
	void (*report)(void *context, const struct weir_error *error);
	void *context;
};

/**
 * Reads a file. Errors: EIO, ELONG, ENOMEM, EINVAL with the first wrong line in `error`; all of
 * them are told to `reporter`, which may be NULL.
 */
int dictionary_open(const char *path, const struct dictionary_reporter *reporter,
                    struct dictionary **out, struct weir_error *error);
/** The same of a text of up to DICTIONARY_BYTES_MAX, which is not needed any more then. */
int dictionary_read(struct slice text, const struct dictionary_reporter *reporter,
                    struct dictionary **out, struct weir_error *error);
/** NULL does nothing. */
void dictionary_close(struct dictionary *dictionary);

/** Whether any entry stands for addresses: if not, nobody needs to know whether a word is one. */
bool dictionary_has_addresses(const struct dictionary *dictionary);
/** Whether `word` is in it. `ip` is the address that `word` spells, or NULL. Threads may share it. */
bool dictionary_has(const struct dictionary *dictionary, struct slice word, const struct ip *ip);

/* The lines that are neither an address nor a range, and so match no address. */
struct dictionary_texts {
	size_t count;
	unsigned line;  /* the first one, or 0 */
	char first[64]; /* its text, of `first_len` bytes; a longer one is cut */
	size_t first_len;
};

const struct dictionary_texts *dictionary_texts(const struct dictionary *dictionary);
/** Its entries: equal ones count once, and ranges that overlap or touch are one. */
size_t dictionary_count(const struct dictionary *dictionary);
/** The bytes of memory that it takes. */
size_t dictionary_size(const struct dictionary *dictionary);

#endif
