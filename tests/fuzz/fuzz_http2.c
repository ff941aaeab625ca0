/* Reads any bytes after the preface as frames of HTTP/2, see fuzz_codec.h. */
#include "fuzz_codec.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The first byte chooses the cut; the preface is not left to chance. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const char preface[] = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
	uint8_t *all;

	if (size == 0)
		return 0;
	all = malloc(sizeof preface + size);
	all[0] = data[0];
	memcpy(all + 1, preface, sizeof preface - 1);
	memcpy(all + sizeof preface, data + 1, size - 1);
	fuzz_codec(&http_codec, SLICE(""), all, sizeof preface + size - 1);
	free(all);
	return 0;
}
