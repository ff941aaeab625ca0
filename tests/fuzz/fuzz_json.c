#include <stdint.h>
#include <stdlib.h>

#include "proto/json_body.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct codec_limits limits = {64, 1024, 512, 8};
	struct arena arena = {0};
	struct request request = {.cost = 1};
	struct fill fill = {.request = &request, .limits = &limits, .arena = &arena};
	int status = json_read(&fill, (struct slice){(const char *)data, size});

	if (status == 0 && (request.key.len > 64 || request.attribute_count > 8))
		abort();
	if (status != 0 && fill.error.message[0] == '\0')
		abort();
	arena_free(&arena);
	return 0;
}
