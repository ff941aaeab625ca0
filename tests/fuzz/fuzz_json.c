/* Reads bodies of requests, and compares the JSON reader with Jansson on what is JSON. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>

#include "base/buffer.h"
#include "base/text/json.h"
#include "proto/json_body.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool is_utf8(const uint8_t *data, size_t size)
{
	while (size > 0) {
		size_t n = utf8_sequence(data, size);

		if (n == 0)
			return false;
		data += n;
		size -= n;
	}
	return true;
}

/* Jansson also refuses large numbers and a NUL in a name; it takes twice the nesting. */
static void compare(const uint8_t *data, size_t size)
{
	struct json json = json_of((struct slice){(const char *)data, size});
	bool is_json = json_skip(&json) && json_end(&json) && is_utf8(data, size);
	json_error_t error;
	json_t *value = json_loadb((const char *)data, size, JSON_DECODE_ANY | JSON_ALLOW_NUL, &error);
	enum json_error_code code = value ? json_error_unknown : json_error_code(&error);

	if (value && !is_json && json.at - (const char *)data < JSON_DEPTH_MAX)
		abort();
	if (!value && is_json && code != json_error_numeric_overflow &&
	    code != json_error_null_byte_in_key)
		abort();
	json_decref(value);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct codec_bounds bounds = {64, 1024, 512, 8};
	struct arena arena = {0};
	struct request request = {.cost = 1};
	struct fill fill = {.request = &request, .bounds = &bounds, .arena = &arena};
	int status = json_body_read(&fill, (struct slice){(const char *)data, size});

	if (status == 0 && (request.key.len > 64 || request.attribute_count > 8))
		abort();
	if (status != 0 && fill.error.message[0] == '\0')
		abort();
	arena_free(&arena);
	if (!memchr(data, '\0', size)) /* which ends a text for Jansson */
		compare(data, size);
	return 0;
}
