/*
 * unpack.h: reads a file or pipe and decompresses gzip (RFC 1952) and zstd (RFC 8878).
 *
 * The first bytes show the format. Successive members or frames are one text. Memory is bounded
 * whatever the file contains: zlib needs about 40 KB, zstd at most a window of 128 MiB. One thread
 * at a time may use a reader.
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
 * Reads 1 to `size` bytes of the text into `out`; returns their number, or 0 at the end. Returns -1
 * and sets errno on an error. For EBADMSG unpack_damage describes the damage.
 */
ptrdiff_t unpack_read(struct unpack *unpack, char *out, size_t size);

/** The damage of the compressed bytes as "expected ..., found ..."; NULL if there is none. */
const char *unpack_damage(const struct unpack *unpack);

/** Bytes read from the file so far. */
uint64_t unpack_consumed(const struct unpack *unpack);

#endif
