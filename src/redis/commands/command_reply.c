/*
 * command_reply.c: the parts of a reply to a call of several steps. A reply comes from outside and
 * may be anything.
 */
#include <endian.h>
#include <string.h>

#include "redis/commands/command_inside.h"

struct redis_reply command_item(const struct redis_reply *reply, size_t n, size_t i)
{
	struct redis_reply item = {.type = REDIS_ERROR};
	uint64_t bits;
	double number;

	if (reply->type == REDIS_ARRAY && reply->count > n)
		return reply->items[i];
	if (reply->type != REDIS_TEXT || reply->text.len != (n + 1) * sizeof number)
		return item;
	memcpy(&bits, reply->text.data + i * sizeof bits, sizeof bits);
	bits = le64toh(bits);
	memcpy(&number, &bits, sizeof number);
	if (number >= 0 && number < 0x1p53) {
		item.type = REDIS_INTEGER;
		item.integer = (int64_t)number;
	}
	return item;
}

uint64_t command_clock(const struct redis_reply *reply, size_t n)
{
	struct redis_reply clock = command_item(reply, n, n);

	if (clock.type != REDIS_INTEGER || clock.integer <= 0 ||
	    (uint64_t)clock.integer > UINT64_MAX / 1000)
		return 0;
	return (uint64_t)clock.integer * 1000;
}

bool command_granted(const struct redis_reply *reply, size_t n, size_t i, int64_t *granted)
{
	const struct redis_reply *odd = reply->type == REDIS_ARRAY ? reply->items + n + 1 : NULL;
	size_t low = 0, high = odd ? (reply->count - n - 1) / 2 : 0;

	while (low < high) {
		size_t middle = (low + high) / 2;
		const struct redis_reply *pair = &odd[2 * middle];

		if (pair[0].type != REDIS_INTEGER || pair[1].type != REDIS_INTEGER)
			return false;
		if (pair[0].integer == (int64_t)i + 1) {
			bool fits = pair[1].integer >= -4 && pair[1].integer < *granted;

			*granted = pair[1].integer;
			return fits;
		}
		if (pair[0].integer <= (int64_t)i)
			low = middle + 1;
		else
			high = middle;
	}
	return true;
}
