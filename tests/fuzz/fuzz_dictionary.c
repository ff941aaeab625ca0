/* Reads a text as a dictionary, and checks that each word of it is found. */
#include <stdint.h>
#include <stdlib.h>

#include "rules/match/dictionary.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool has(const struct dictionary *dictionary, struct slice word)
{
	struct ip ip;

	return dictionary_has(dictionary, word, ip_parse(word, &ip) ? &ip : NULL);
}

static void ask(const struct dictionary *dictionary, struct slice line)
{
	struct ip_pattern pattern;
	struct ip_range range;
	struct slice word;

	if (line.len > 0 && line.data[line.len - 1] == '\r')
		line.len--;
	word = slice_trim(line);
	if (word.len == 0 || *word.data == '#')
		return;
	if (ip_range_parse(word, &range)) {
		if (!dictionary_has(dictionary, word, &range.first) ||
		    !dictionary_has(dictionary, word, &range.last))
			abort();
	} else if (!ip_pattern_parse(word, &pattern) && !has(dictionary, word)) {
		abort();
	}
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct slice rest = {(const char *)data, size};
	struct dictionary *dictionary;
	struct weir_error error = {.message = ""};

	if (dictionary_read(rest, NULL, &dictionary, &error) != WEIR_OK) {
		if (error.line == 0 || error.message[0] == '\0')
			abort();
		return 0;
	}
	if (size >= 3)
		slice_skip(&rest, SLICE("\xef\xbb\xbf"));
	while (rest.len > 0)
		ask(dictionary, slice_cut(&rest, '\n'));
	dictionary_close(dictionary);
	return 0;
}
