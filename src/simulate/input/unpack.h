/*
 * unpack.h: the bytes of a file or pipe, which may be compressed.
 *
 * The first bytes tell gzip (RFC 1952) and zstd (RFC 8878) apart from text. Members or frames that
 * follow each other are one text. Memory is bounded whatever the file says: zlib needs some 40 KB,
 * zstd at most a window of 128 MiB.
 *
 * One thread at a time.
 */
#ifndef SIMULATE_UNPACK_H
#define SIMULATE_UNPACK_H

#include <stddef.h>
#include <stdint.h>

struct unpack;

/** Reads `fd`, which stays the caller's. Returns NULL if out of memory. */
struct unpack *unpack_open(int fd);
void unpack_close(struct unpack *unpack); /* NULL does nothing */

/**
 * At least one byte and at most `size` of the text, into `out`; 0 at its end. -1: errno is set, to
 * EBADMSG where unpack_damage says what is wrong with the compressed bytes.
 */
ptrdiff_t unpack_read(struct unpack *unpack, char *out, size_t size);

/**
 * The fault in the compressed bytes, as "expected ..., found ...". Returns NULL if there is none.
 */
const char *unpack_damage(const struct unpack *unpack);

/** Bytes read from the file so far. */
uint64_t unpack_consumed(const struct unpack *unpack);

#endif
