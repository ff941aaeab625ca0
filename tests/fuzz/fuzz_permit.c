/* Reads a text as a permit: it is refused, or writing the permit gives the same text. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "server/requests/permit_text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct hash_key secret = {1, 2};
	struct slice text = {(const char *)data, size}, again;
	struct weir_permits permits, found;
	struct engine_names names = {0}, found_names;
	struct arena arena = {0};

	if (permit_text_read(text, &secret, &arena, &permits, &names)) {
		again = permit_text_write(&permits, &names, &secret, &arena);
		if (!slice_equal(text, again))
			abort();
	} else if (size >= sizeof *permits.charges) { /* nobody guesses: it comes as words, too */
		permits = (struct weir_permits){.id = size, .cost = data[0]};
		permits.count = u64_min(size / sizeof *permits.charges, WEIR_PERMITS_MAX);
		memcpy(permits.charges, data, permits.count * sizeof *permits.charges);
		for (size_t i = 0; i < permits.count; i++)
			if (data[i] & 1)
				names.key_names[i] = (struct slice){(const char *)data, u64_min(data[i], size)};
		again = permit_text_write(&permits, &names, &secret, &arena);
		if (!permit_text_read(again, &secret, &arena, &found, &found_names) ||
		    memcmp(&found, &permits, sizeof found) != 0)
			abort();
		for (size_t i = 0; i < permits.count; i++)
			if (!slice_equal(names.key_names[i], found_names.key_names[i]))
				abort();
	}
	arena_free(&arena);
	return 0;
}
