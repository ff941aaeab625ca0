/* A text either is one of ours, which is then written alike, or it is refused. */
#include <stdint.h>
#include <stdlib.h>

#include "server/permit_text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct hash_key secret = {1, 2};
	struct slice text = {(const char *)data, size}, again;
	struct engine_taken taken[PERMIT_TEXT_CHARGES] = {0}, found[PERMIT_TEXT_CHARGES];
	size_t n = permit_text_read(text, &secret, taken);
	struct arena arena = {0};

	if (n > 0) {
		again = permit_text_write(taken, n, &secret, &arena);
		if (!slice_equal(text, again))
			abort();
	} else if (size >= sizeof *taken) { /* nobody guesses, so what is in it comes as words, too */
		n = size / sizeof *taken < PERMIT_TEXT_CHARGES ? size / sizeof *taken : PERMIT_TEXT_CHARGES;
		memcpy(taken, data, n * sizeof *taken);
		for (size_t i = 0; i < n; i++)
			taken[i].permit = taken[0].permit;
		again = permit_text_write(taken, n, &secret, &arena);
		if (permit_text_read(again, &secret, found) != n ||
		    memcmp(found, taken, n * sizeof *taken) != 0)
			abort();
	}
	arena_free(&arena);
	return 0;
}
