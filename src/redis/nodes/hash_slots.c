/*
 * hash_slots.c: computes the slot of a key in a Redis Cluster, and reads from replies of Redis
 * which server has a slot. Replies come from outside and may be anything.
 */
#include "redis/nodes/hash_slots.h"

#include "base/number.h"

/* CRC-16/XMODEM, four bits at a time. */
static unsigned crc16(struct slice text)
{
	static const uint16_t table[16] = {
	    0x0000, 0x1021, 0x2042, 0x3063, 0x4084, 0x50a5, 0x60c6, 0x70e7,
	    0x8108, 0x9129, 0xa14a, 0xb16b, 0xc18c, 0xd1ad, 0xe1ce, 0xf1ef,
	};
	uint16_t crc = 0;

	for (size_t i = 0; i < text.len; i++) {
		unsigned char byte = (unsigned char)text.data[i];

		crc = (uint16_t)(crc << 4) ^ table[crc >> 12 ^ byte >> 4];
		crc = (uint16_t)(crc << 4) ^ table[crc >> 12 ^ (byte & 15)];
	}
	return crc;
}

/* Only the text in the first braces decides the slot, if there is any. */
unsigned hash_slot_of(struct slice name)
{
	struct slice rest = name;

	slice_cut(&rest, '{');
	struct slice tag = slice_cut(&rest, '}');
	bool is_closed = tag.data && tag.data + tag.len < name.data + name.len;

	return crc16(is_closed && tag.len > 0 ? tag : name) % HASH_SLOTS;
}

/*
 * Checks and copies the name of a host. An empty name stands for `asked`, the sender of the reply.
 */
bool hash_slots_read_host(struct slice name, uint64_t port, const struct redis_host *asked,
                          struct redis_host *out)
{
	if (port == 0 || port > UINT16_MAX || name.len > REDIS_HOST_MAX || (name.len == 0 && !asked))
		return false;
	for (size_t i = 0; i < name.len; i++) {
		/* A name with a slash would be a Unix socket of this machine; "?" is an unknown name. */
		if (name.data[i] <= ' ' || name.data[i] > '~' || name.data[i] == '?' || name.data[i] == '/')
			return false;
	}
	*out = (struct redis_host){.port = (uint16_t)port};
	if (name.len == 0)
		memcpy(out->name, asked->name, sizeof(out->name));
	else
		memcpy(out->name, name.data, name.len);
	return true;
}

static bool is_slot_number(const struct redis_reply *reply)
{
	return reply->type == REDIS_INTEGER && reply->integer >= 0 && reply->integer < HASH_SLOTS;
}

/* Reads an entry of a reply to CLUSTER SLOTS. Returns false if it makes no sense. */
bool hash_slots_read_range(const struct redis_reply *reply, size_t i,
                           const struct redis_host *asked, struct hash_slots_range *out)
{
	if (reply->type != REDIS_ARRAY || i >= reply->count)
		return false;
	const struct redis_reply *entry = &reply->items[i];

	/* First slot, last slot, master, replicas. */
	if (entry->type != REDIS_ARRAY || entry->count < 3 || !is_slot_number(&entry->items[0]) ||
	    !is_slot_number(&entry->items[1]) || entry->items[0].integer > entry->items[1].integer)
		return false;
	const struct redis_reply *master = &entry->items[2];

	/* Address, port, and further fields. */
	if (master->type != REDIS_ARRAY || master->count < 2 ||
	    (master->items[0].type != REDIS_TEXT && master->items[0].type != REDIS_NIL) ||
	    master->items[1].type != REDIS_INTEGER || master->items[1].integer < 0)
		return false;
	struct slice name = master->items[0].type == REDIS_TEXT ? master->items[0].text : SLICE("");

	out->first = (unsigned)entry->items[0].integer;
	out->last = (unsigned)entry->items[1].integer;
	return hash_slots_read_host(name, (uint64_t)master->items[1].integer, asked, &out->host);
}

/* Reads an error such as "MOVED 3999 127.0.0.1:6381": the slot, and the host that has it. */
enum hash_slots_redirect hash_slots_read_redirect(struct slice error,
                                                  const struct redis_host *asked, unsigned *slot,
                                                  struct redis_host *to)
{
	enum hash_slots_redirect kind = slice_skip(&error, SLICE("MOVED ")) ? HASH_SLOTS_MOVED
	                                : slice_skip(&error, SLICE("ASK ")) ? HASH_SLOTS_ASK
	                                                                    : HASH_SLOTS_STAY;
	uint64_t number, port;

	if (kind == HASH_SLOTS_STAY || !parse_u64(slice_cut(&error, ' '), &number) ||
	    number >= HASH_SLOTS)
		return HASH_SLOTS_STAY;
	const char *colon = memrchr(error.data, ':', error.len);

	/* An IPv6 address has colons, too, but no brackets. */
	if (!colon)
		return HASH_SLOTS_STAY;
	struct slice name = {error.data, (size_t)(colon - error.data)};
	struct slice digits = {colon + 1, error.len - name.len - 1};

	if (!parse_u64(digits, &port) || !hash_slots_read_host(name, port, asked, to))
		return HASH_SLOTS_STAY;
	*slot = (unsigned)number;
	return kind;
}
