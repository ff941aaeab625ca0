/* Reads a line as a denial: it is refused, or its printed form is read as the same denial. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "server/denials/denial_line.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Writes the denial's line, of the JSON that a sample of one lists between its brackets. */
static struct slice show(const struct denial_line *line, struct buffer *out)
{
	struct denial_sample *sample = denial_sample_open(1);
	struct buffer list = {0};

	denial_sample_restore(sample, &line->denial, line->id);
	denial_sample_list(sample, &(struct denial_filter){.count_max = 1}, &list);
	denial_sample_close(sample);
	denial_line_write(out, (struct slice){list.data + 1, list.len - 2}, line->denial.values);
	buffer_free(&list);
	return (struct slice){out->data, out->len - 1}; /* without its newline */
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1); /* one byte, so that an empty line has memory, too */
	struct denial_line line, again;
	struct buffer shown = {0}, shown_again = {0};

	memcpy(text, data, size);
	if (denial_line_read(text, size, &line)) {
		struct slice first = show(&line, &shown), second;
		char *copy = malloc(first.len + 1);

		memcpy(copy, first.data, first.len);
		if (!denial_line_read(copy, first.len, &again))
			abort();
		second = show(&again, &shown_again);
		if (!slice_equal(first, second))
			abort();
		buffer_free(&again.attributes);
		free(copy);
	} else if (!line.expected || line.column > size + 1) {
		abort();
	}
	buffer_free(&line.attributes);
	buffer_free(&shown);
	buffer_free(&shown_again);
	free(text);
	return 0;
}
