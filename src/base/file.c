#include "base/file.h"

#include <stdio.h>

#include "base/error.h"

#define ROOM ((size_t)64 << 10)

/* One byte more than is accepted, so that too much is noticed. */
static int read_up_to(FILE *file, size_t max, struct buffer *out, struct weir_error *error)
{
	size_t before = out->len, got = 1;

	while (got > 0 && out->len - before <= max) {
		char *to = buffer_reserve(out, ROOM);

		if (!to)
			return error_set(error, WEIR_ENOMEM, "%s", weir_strerror(WEIR_ENOMEM));
		got = fread(to, 1, ROOM, file);
		out->len += got;
	}
	if (ferror(file))
		return error_set(error, WEIR_EIO, "expected a readable file, found: %m");
	if (out->len - before > max) {
		out->len = before;
		return error_set(error, WEIR_ELONG, "expected at most %zu MiB, found more", max >> 20);
	}
	return WEIR_OK;
}

int file_read(const char *path, size_t max, struct buffer *out, struct weir_error *error)
{
	FILE *file = fopen(path, "rbe");
	int status;

	if (!file)
		return error_set(error, WEIR_EIO, "expected a readable file, found: %m");
	status = read_up_to(file, max, out, error);
	fclose(file);
	return status;
}
