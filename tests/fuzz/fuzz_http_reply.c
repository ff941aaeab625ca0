/* Reads a reply of HTTP in any pieces: each piece begins with its length. */
#include <stdint.h>
#include <stdlib.h>

#include "client/http_reply.h"
#include "fuzz_pieces.h"

#define BODY_MAX 256

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct slice rest = {(const char *)data, size};
	struct weir_error error = {0};
	struct http_reply reply;
	int status = WEIR_OK;

	http_reply_open(&reply, BODY_MAX);
	while (rest.len > 0 && status == WEIR_OK)
		status = http_reply_read(&reply, cut_piece(&rest), &error);
	if (status == WEIR_OK)
		status = http_reply_end(&reply, &error);
	if (reply.has_ended != (status == WEIR_OK) || (status != WEIR_OK) != (*error.message != '\0') ||
	    reply.body.len > BODY_MAX)
		abort();
	http_reply_free(&reply);
	return 0;
}
