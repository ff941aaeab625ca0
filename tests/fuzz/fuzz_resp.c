/* Reads any bytes as RESP, see fuzz_codec.h. */
#include "fuzz_codec.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	return fuzz_codec(&resp_codec, SLICE(""), data, size);
}
