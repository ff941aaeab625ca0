/* Reads any bytes as HTTP/1 or HTTP/2, see fuzz_codec.h. */
#include "fuzz_codec.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	return fuzz_codec(&http_codec, SLICE("HTTP/1.1 100 Continue\r\n\r\n"), data, size);
}
