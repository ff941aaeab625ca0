/*
 * What comes back from a Redis, in any pieces: the input's first byte says how many commands wait,
 * and each piece begins with its length.
 */
#include <stdint.h>
#include <stdlib.h>

#include "redis/link.h"

#define CALLS 255

static size_t told, lost;

/* Reads all of a reply, so that the sanitizer sees it; how many values it has. */
static size_t read_all(const struct redis_reply *reply)
{
	volatile char last = 0;
	size_t n = 1;

	if (reply->type > REDIS_ARRAY)
		abort();
	for (size_t i = 0; i < reply->text.len; i++)
		last = reply->text.data[i];
	(void)last;
	for (size_t i = 0; i < reply->count; i++)
		n += read_all(&reply->items[i]);
	return n;
}

static void replied(struct link_call *call, const struct redis_reply *reply)
{
	(void)call;
	if (!reply)
		lost++;
	else if (lost > 0 || read_all(reply) > LINK_ITEMS_MAX)
		abort();
	told++;
}

/* The next piece of *rest. */
static struct slice cut_piece(struct slice *rest)
{
	size_t len = (unsigned char)*rest->data;
	struct slice piece = {rest->data + 1, len < rest->len - 1 ? len : rest->len - 1};

	*rest = (struct slice){piece.data + piece.len, rest->len - 1 - piece.len};
	return piece;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct redis_url url;
	struct slice rest = {(const char *)data, size};
	struct link_call calls[CALLS];
	struct link *link;
	size_t sent = size > 0 ? data[0] : 0;
	int status = WEIR_OK;

	told = lost = 0;
	if (size == 0 || link_open(&link, &url, "h") != WEIR_OK)
		return 0;
	slice_skip(&rest, (struct slice){rest.data, 1});
	for (size_t i = 0; i < sent; i++) {
		calls[i] = (struct link_call){.replied = replied};
		link_write_words(link_command(link), &SLICE("X"), 1);
		link_sent(link, &calls[i]);
	}
	while (rest.len > 0 && status == WEIR_OK)
		status = link_in(link, cut_piece(&rest));
	if ((status != WEIR_OK) != (link_error(link)[0] != '\0'))
		abort();
	link_out_gone(link, link_out(link).len);
	link_close(link);
	if (told != sent)
		abort();
	return 0;
}
