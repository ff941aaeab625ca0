/* unpack.c: reads a file or pipe, and decompresses it if it begins as gzip or zstd does. */
#include "simulate/input/unpack.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>
#include <zstd.h>
#include <zstd_errors.h>

#define PACKED_SIZE ((size_t)1 << 16)
#define MAGIC_SIZE  4
#define ANY_GZIP    (15 + 16) /* for inflateInit2: the largest window, gzip format */

/* Decodes some of the packed bytes; returns the number of bytes written to `out`, or -1. */
typedef ptrdiff_t decode_fn(struct unpack *unpack, char *out, size_t size);

struct unpack {
	int fd;
	bool file_ended;   /* the file has no more bytes */
	bool in_frame;     /* a member or frame has begun and not ended */
	decode_fn *decode; /* NULL if the file is plain */
	const char *damage;
	uint64_t consumed;
	z_stream gzip;
	ZSTD_DStream *zstd;
	size_t begin, end; /* of the packed bytes that are not decoded yet */
	unsigned char packed[PACKED_SIZE];
};

/* Returns the number of bytes read, 0 at the end of the file, or -1 with errno set. */
static ptrdiff_t read_file_bytes(struct unpack *unpack, void *out, size_t size)
{
	ptrdiff_t got;

	do
		got = read(unpack->fd, out, size);
	while (got < 0 && errno == EINTR);
	unpack->file_ended = got == 0;
	unpack->consumed += got > 0 ? (uint64_t)got : 0;
	return got;
}

static int fail_out_of_memory(void)
{
	errno = ENOMEM;
	return -1;
}

static ptrdiff_t report_damage(struct unpack *unpack, const char *damage)
{
	unpack->damage = damage;
	errno = EBADMSG;
	return -1;
}

static ptrdiff_t decode_gzip(struct unpack *unpack, char *out, size_t size)
{
	z_stream *gzip = &unpack->gzip;
	int status;

	if (!unpack->in_frame && inflateReset(gzip) != Z_OK)
		return report_damage(unpack, "expected gzip, found a broken state");
	unpack->in_frame = true;
	gzip->next_in = unpack->packed + unpack->begin;
	gzip->avail_in = (unsigned)(unpack->end - unpack->begin);
	gzip->next_out = (unsigned char *)out;
	gzip->avail_out = (unsigned)size;
	status = inflate(gzip, Z_NO_FLUSH);
	unpack->begin = unpack->end - gzip->avail_in;
	if (status == Z_MEM_ERROR)
		return fail_out_of_memory();
	if (status != Z_OK && status != Z_STREAM_END && status != Z_BUF_ERROR)
		return report_damage(unpack, "expected gzip, found other bytes or damaged ones");
	unpack->in_frame = status != Z_STREAM_END;
	return (ptrdiff_t)(size - gzip->avail_out);
}

static ptrdiff_t decode_zstd(struct unpack *unpack, char *out, size_t size)
{
	ZSTD_inBuffer from = {unpack->packed, unpack->end, unpack->begin};
	ZSTD_outBuffer to = {out, size, 0};
	size_t left = ZSTD_decompressStream(unpack->zstd, &to, &from);

	unpack->begin = from.pos;
	if (ZSTD_isError(left) && ZSTD_getErrorCode(left) == ZSTD_error_memory_allocation)
		return fail_out_of_memory();
	if (ZSTD_isError(left) && ZSTD_getErrorCode(left) == ZSTD_error_frameParameter_windowTooLarge)
		return report_damage(unpack,
		                     "expected zstd with a window of at most 128 MiB, found a larger one");
	if (ZSTD_isError(left))
		return report_damage(unpack, "expected zstd, found other bytes or damaged ones");
	unpack->in_frame = left != 0;
	return (ptrdiff_t)to.pos;
}

/* Reads the first bytes and chooses the decoder by them. */
static int choose_decoder(struct unpack *unpack)
{
	static const unsigned char gzip[] = {0x1f, 0x8b}, zstd[] = {0x28, 0xb5, 0x2f, 0xfd};
	const unsigned char *first = unpack->packed;

	while (unpack->end < MAGIC_SIZE && !unpack->file_ended) {
		ptrdiff_t got =
		    read_file_bytes(unpack, unpack->packed + unpack->end, PACKED_SIZE - unpack->end);

		if (got < 0)
			return -1;
		unpack->end += (size_t)got;
	}
	if (unpack->end >= sizeof gzip && memcmp(first, gzip, sizeof gzip) == 0) {
		if (inflateInit2(&unpack->gzip, ANY_GZIP) != Z_OK)
			return fail_out_of_memory();
		unpack->decode = decode_gzip;
	}
	if (unpack->end >= sizeof zstd && memcmp(first, zstd, sizeof zstd) == 0) {
		unpack->zstd = ZSTD_createDStream();
		if (!unpack->zstd)
			return fail_out_of_memory();
		unpack->decode = decode_zstd;
	}
	return 0;
}

struct unpack *unpack_open(int fd)
{
	struct unpack *unpack = calloc(1, sizeof *unpack);

	if (unpack)
		unpack->fd = fd;
	return unpack;
}

void unpack_close(struct unpack *unpack)
{
	if (!unpack)
		return;
	if (unpack->decode == decode_gzip)
		inflateEnd(&unpack->gzip);
	ZSTD_freeDStream(unpack->zstd);
	free(unpack);
}

/* Reads a file that is not compressed, first the bytes by which its format was guessed. */
static ptrdiff_t read_plain(struct unpack *unpack, char *out, size_t size)
{
	size_t buffered = unpack->end - unpack->begin;

	if (buffered == 0)
		return unpack->file_ended ? 0 : read_file_bytes(unpack, out, size);
	buffered = buffered < size ? buffered : size;
	memcpy(out, unpack->packed + unpack->begin, buffered);
	unpack->begin += buffered;
	return (ptrdiff_t)buffered;
}

ptrdiff_t unpack_read(struct unpack *unpack, char *out, size_t size)
{
	if (unpack->damage)
		return report_damage(unpack, unpack->damage);
	if (unpack->consumed == 0 && !unpack->file_ended && choose_decoder(unpack) != 0)
		return -1;
	if (!unpack->decode)
		return read_plain(unpack, out, size);
	for (;;) {
		ptrdiff_t got;

		if (unpack->begin == unpack->end && !unpack->file_ended) {
			got = read_file_bytes(unpack, unpack->packed, PACKED_SIZE);
			if (got < 0)
				return -1;
			unpack->begin = 0;
			unpack->end = (size_t)got;
		}
		/* A decoder may still have text of bytes that it has consumed. */
		if (unpack->begin == unpack->end && !unpack->in_frame)
			return 0;
		got = unpack->decode(unpack, out, size);
		if (got != 0)
			return got;
		if (unpack->begin == unpack->end && unpack->file_ended && unpack->in_frame)
			return report_damage(
			    unpack, "expected the whole of a compressed file, found its end too early");
	}
}

const char *unpack_damage(const struct unpack *unpack)
{
	return unpack->damage;
}

uint64_t unpack_consumed(const struct unpack *unpack)
{
	return unpack->consumed;
}
